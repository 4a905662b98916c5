#pragma once

// Plans that a trial could not tell from one that was measured: the same layout, other recompute ranges, and a
// prediction that differs by less than the measurement's noise. Trying them costs steps and teaches nothing. Pure.

#include <string>
#include <vector>

#include "tuning/search/planning.hpp"

namespace trimtab::coordinator {

// Of a step's time; a smaller difference is never looked for.
inline constexpr double kLeastDifference = 0.01;

// A plan that a candidate must differ from.
struct KnownPlan {
  std::string name;  // "trial 2", for people
  std::string layout;
  double predicted_ms = 0;
  double relative_error = 0;  // standard error of its measured mean, as a share
};

// What counts as noise beside that plan.
[[nodiscard]] double noise_of(const KnownPlan& known);
// The first that the candidate is a near copy of; null = it is none.
[[nodiscard]] const KnownPlan* near_copy_of(const PricedPlan& candidate, const std::vector<KnownPlan>& known);

}  // namespace trimtab::coordinator
