#include "trust/users.hpp"

#include <pwd.h>

#include <algorithm>
#include <array>

#include "base/numbers.hpp"
#include "net/listener_rule.hpp"

namespace trimtab::net {

bool is_user_text(std::string_view text) {
  constexpr std::size_t kLongest = 255;
  const auto is_part = [](unsigned char c) { return c > ' ' && c != 127; };
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, is_part);
}

std::string name_of_user(uid_t user) {
  passwd found{};
  passwd* result = nullptr;
  std::array<char, 4096> texts{};
  const bool known = ::getpwuid_r(user, &found, texts.data(), texts.size(), &result) == 0 && result != nullptr;
  return known ? found.pw_name : std::to_string(user);
}

std::optional<uid_t> user_of(const std::string& text) {
  if (const auto number = parse_number<uid_t>(text)) return *number;
  passwd found{};
  passwd* result = nullptr;
  std::array<char, 4096> texts{};
  const bool known = ::getpwnam_r(text.c_str(), &found, texts.data(), texts.size(), &result) == 0 && result != nullptr;
  return known ? std::optional(found.pw_uid) : std::nullopt;
}

}  // namespace trimtab::net
