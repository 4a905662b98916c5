#pragma once

// What a series over steps says, robustly. Its median; and an interval that needs no distribution and stands noise that
// lasts for some steps: the series is cut into stretches that follow each other, each gives its median, and between the
// right two of those medians the median of them all lies with 95 % (order statistics, the sign test's interval). Pure.

#include <cstddef>
#include <span>
#include <vector>

namespace trimtab::coordinator {

struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

// Of fewer an interval goes from the least to the largest one, whatever the chance of that.
inline constexpr std::size_t kLeastRows = 6;

// REQUIRES: not empty. The mean of the two middle ones where there are two.
[[nodiscard]] double median_of(std::vector<double> values);
// REQUIRES: not empty, 0 <= q <= 1.
[[nodiscard]] double quantile_of(std::vector<double> values, double q);
// Of a share whose parts do not come evenly, as of a loader that gives several batches at once: in each stretch it is
// the sum of the parts over the sum of the wholes. REQUIRES: as many of both, and some.
[[nodiscard]] Estimate estimate_of_sums(std::span<const double> parts, std::span<const double> wholes);
// The chance that so many of the stretches' medians lie above the limit where the median of them all does not.
// REQUIRES: not empty.
[[nodiscard]] double chance_above(std::span<const double> series, double limit);
// The interval encloses the value. REQUIRES: not empty.
[[nodiscard]] Estimate estimate_of(std::span<const double> series);

}  // namespace trimtab::coordinator
