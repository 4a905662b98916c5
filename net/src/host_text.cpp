#include "net/host_text.hpp"

#include <algorithm>
#include <cctype>

namespace trimtab::net {

bool is_host_text(std::string_view text) {
  constexpr std::size_t kLongest = 255;
  const auto is_part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == ':'; };
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, is_part);
}

std::string authority(const std::string& host, std::uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace trimtab::net
