#pragma once

// How training corrects what a benchmark measured of the same thing at other sizes (cost_choice.hpp). A thing is an
// operator's pass with its split, over samples; or a collective of one group, over bytes. Pure.

#include "tuner/cost_choice.hpp"

namespace trimtab::tuner {

// The key without its size.
using CurveKey = CostKey;
[[nodiscard]] CurveKey curve_of(CostKey key);
[[nodiscard]] bool is_pass(CostKind kind);  // of an operator
// Samples of an operator, bytes of what crosses links.
[[nodiscard]] std::int64_t size_of(const CostKey& key);

// Of a cost's values, without its factor: what a step takes of it. A step adds up many passes, those that took longer
// than most with them. So passes on a quiet machine count by their mean, as far as it is within kSkew of the median:
// beyond that a few were disturbed. All else counts by its median.
[[nodiscard]] double level_of(const ChosenCost& cost);
inline constexpr double kSkew = 0.05;

// Of one thing, by size. Training's own values are alone, without waiting, and enough.
struct Evidence {
  std::map<std::int64_t, ChosenCost> benchmark;
  std::map<std::int64_t, ChosenCost> training;
};

// What is other than the first choice: a benchmark's costs with a factor, training's in place of a benchmark's, and
// training's that price nothing since the benchmark's line says the same.
struct Corrections {
  std::vector<ChosenCost> costs;
  std::vector<CostKey> left_out;
};

// With r the logarithm of training's level over the benchmark's, interpolated at training's size:
//   * all r of operators' passes, and all of what crosses links, are weighed together. Where they are no farther from 0
//     than their noise explains, none is taken. Else each is taken by its weight t^2 / (t^2 + sigma^2), with t how far
//     true ratios spread. A benchmark on a disturbed machine gives way to any r, wholly;
//   * at a size that training saw, training's values are chosen. Where none is taken, the benchmark's stay. Of what
//     crosses links its line counts between its sizes, too, and a rounding beyond them: training's value there is left
//     out, unless that one alone is farther off than its noise explains;
//   * at other sizes of a pass the nearest size's r, by its weight, multiplies the benchmark's values; it is less sure
//     the farther the size is, by kPerDoubling for each doubling;
//   * at other sizes of what crosses links, r is interpolated between two sizes that training saw. Above them the
//     difference stays that of the nearest size, below it is in proportion to the size: start-up or rate may be all
//     that is wrong. It is less sure by half of what r would say beyond that. Both may be wrong, each for itself. Of
//     two sizes or more a straight line of the benchmark's times is fitted (least squares), and what is no nearer to
//     it than its standard error gives way to it as far as that. It is then less sure by that error, if that is less;
//   * an operator at a degree that training never saw takes the mean of its other degrees' r, with kOtherDegree added
//     to its standard deviation.
[[nodiscard]] Corrections corrected(const std::map<CurveKey, Evidence>& curves);

inline constexpr double kPerDoubling = 0.02;
inline constexpr double kRounding = 1.13;     // between sizes that training has rounded to one: three significant bits
inline constexpr double kOfDisturbed = 0.10;  // relative standard error of what a disturbed machine measured
inline constexpr double kOtherDegree = 0.05;

}  // namespace trimtab::tuner
