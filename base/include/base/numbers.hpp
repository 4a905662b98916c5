#pragma once

// Numbers as people read them. Pure; the same text on every machine (no locale).

#include <string>

namespace trimtab {

// Three significant figures or so: "374 ms", "51.2 ms", "1.23 ms".
[[nodiscard]] std::string format_ms(double milliseconds);
// `decimals` places, without a trailing ".00".
[[nodiscard]] std::string format_number(double value, int decimals = 2);
// Exactly `decimals` places: for columns and ratios.
[[nodiscard]] std::string format_fixed(double value, int decimals);
// "12.3 %"
[[nodiscard]] std::string format_percent(double fraction);

}  // namespace trimtab
