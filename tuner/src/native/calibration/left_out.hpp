#pragma once

// Whether what was learnt foretells what it was not learnt from. Measurements are left out one by one and predicted
// from the others (Stone 1974, "Cross-validatory choice and assessment of statistical predictions"). Pure.

#include <vector>

namespace trimtab::tuner {

// Relative errors of measurements that were left out, in their order.
using LeftOutErrors = std::vector<double>;

[[nodiscard]] double mean(const LeftOutErrors& errors);

// Whether errors have fallen by more than chance makes them in one case of twenty, by the standard error of their mean
// fall. Few falls say little of their own variance, so it is shrunk towards that of the measurements' noise, of which
// the standard deviation is `noise`. False of less than two measurements.
[[nodiscard]] bool falls(const LeftOutErrors& before, const LeftOutErrors& after, double noise);
// Of one measurement, whose fall says nothing of its own variance.
[[nodiscard]] bool falls_by_far(double before, double after, double noise);

}  // namespace trimtab::tuner
