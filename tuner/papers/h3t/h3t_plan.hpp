#pragma once

// Plans as H3T's model prices them: one stage of replicas over all devices, one microbatch a step. Pure.

#include <string>
#include <vector>

#include "plan/switch_plan.hpp"
#include "solvers/h3t/layer_profile.hpp"

namespace trimtab::tuner::h3t {

[[nodiscard]] inline double ms(Ticks ticks) {
  constexpr double kMsPerTick = 1e-6;
  return static_cast<double>(ticks) * kMsPerTick;
}

// One stage of all replicas, gradients sharded (where there is more than one), the optimizer on the host.
[[nodiscard]] Plan plan_of(const Model& model, std::int32_t devices, const std::vector<Range>& layers,
                           const Switching& switches);

// REQUIRES: unpriced(plan) is empty.
[[nodiscard]] Switching switching_of(const Plan& plan, const std::vector<Range>& layers);

// What of the plan H3T's model does not price, each by its place and name with what it needs.
[[nodiscard]] std::vector<std::string> unpriced(const Plan& plan, const std::vector<Range>& layers);

}  // namespace trimtab::tuner::h3t
