#include "budget.hpp"

#include <charconv>

#include "base/units.hpp"

namespace trimtab::cli {

Result<Budget> parse_budget(std::string_view text) {
  if (text.ends_with("ev")) {
    TRIMTAB_TRY(const std::uint64_t evaluations, parse_count("--budget", text.substr(0, text.size() - 2)));
    if (evaluations == 0) return bad_input("--budget: needs at least 1 evaluation, but found '0ev'");
    return Budget{Nanoseconds(0), evaluations};
  }
  const Result<Nanoseconds> time = parse_duration(text);
  if (!time.ok() || time->count() <= 0) {
    return bad_input("--budget: expected a time such as 2s or a number of evaluations such as 100000ev, but found '" +
                     std::string(text) + "'");
  }
  return Budget{*time, 0};
}

Result<std::uint64_t> parse_count(const std::string& flag, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc{} && end == text.data() + text.size() && !text.empty()) return value;
  return bad_input(flag + ": expected a whole number, but found '" + std::string(text) + "'");
}

}  // namespace trimtab::cli
