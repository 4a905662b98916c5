#include "base/numbers.hpp"

#include <array>
#include <cmath>

namespace trimtab {

std::string format_fixed(double value, int decimals) {
  if (!std::isfinite(value)) return value > 0 ? "infinite" : std::isnan(value) ? "unknown" : "-infinite";
  std::array<char, 400> text{};
  const auto [end, failure] =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, decimals);
  std::string result(text.data(), failure == std::errc{} ? end : text.data());
  const bool zero = result.find_first_not_of("-0.") == std::string::npos;
  return zero && result.starts_with('-') ? result.substr(1) : result;
}

std::string format_number(double value, int decimals) {
  std::string text = format_fixed(value, decimals);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string format_ms(double milliseconds) {
  const double size = std::fabs(milliseconds);
  if (size >= 120'000) return format_fixed(milliseconds / 60'000, 1) + " min";
  if (size >= 10'000) return format_fixed(milliseconds / 1000, 1) + " s";
  return format_fixed(milliseconds, size >= 100 ? 0 : size >= 10 ? 1 : 2) + " ms";
}

std::string format_percent(double fraction) {
  return format_fixed(fraction * 100, 1) + " %";
}

}  // namespace trimtab
