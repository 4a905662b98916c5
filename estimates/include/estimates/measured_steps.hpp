#pragma once

// What steps that the user has measured say of estimates on the same machine and model: they are off by a factor that
// plans share, and each by its own. Pure.

#include <span>

#include "estimates/estimate.hpp"

namespace trimtab::estimates {

struct MeasuredStep {
  UniformPlan plan;
  double step_s = 0;
};

struct Correction {
  double factor = 1;  // of estimated times
  double spread = 0;  // of the logarithm of what is measured over what is estimated then
};

// The shared factor's mean and what stays unknown, with the two spreads of constants as its prior (a normal
// distribution of the logarithm). Without measured steps the factor is 1. REQUIRES: of each, check(plan, shape) and
// step_s > 0.
[[nodiscard]] Correction correction_of(const Machine& machine, const ModelShape& shape,
                                       std::span<const MeasuredStep> measured, const Constants& constants);

// The time, its parts and its interval, corrected. Memory stays as it is.
[[nodiscard]] Estimate corrected(Estimate estimate, const Correction& correction);

}  // namespace trimtab::estimates
