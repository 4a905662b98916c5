#pragma once

// Numbers as people read and write them. Pure; the same text on every machine (no locale).

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace trimtab {

// Three significant figures or so: "374 ms", "51.2 ms", "1.23 ms".
[[nodiscard]] std::string format_ms(double milliseconds);
// `decimals` places, without a trailing ".00".
[[nodiscard]] std::string format_number(double value, int decimals = 2);
// Exactly `decimals` places: for columns and ratios.
[[nodiscard]] std::string format_fixed(double value, int decimals);
// "12.3 %"
[[nodiscard]] std::string format_percent(double fraction);

// The whole text as one number of that type; nothing where it is none, or more than the type holds.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Of two independent errors. std::hypot is of a newer glibc than programs may ask for.
[[nodiscard]] inline double root_of_squares(double first, double second) {
  return std::sqrt(first * first + second * second);
}

}  // namespace trimtab
