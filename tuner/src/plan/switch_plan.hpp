#pragma once

// Between H3T's switches of layers and a plan: recompute and the switches of its one segment, as ranges of operators.
// Pure.

#include <string>
#include <vector>

#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "solvers/h3t/layer_switches.hpp"

namespace trimtab::tuner::h3t {

// One stage of all replicas, gradients sharded (where there is more than one), the optimizer on the host.
[[nodiscard]] Plan plan_of(const Model& model, std::int32_t devices, const std::vector<Range>& layers,
                           const Switching& switches);

// The same of some layers' operators: the switches of a segment, and what it recomputes.
[[nodiscard]] Switches plan_switches(const std::vector<Range>& layers, const Switching& switches);
[[nodiscard]] std::vector<Range> rematerialized(const std::vector<Range>& layers, const Switching& switches);

// What those say of each layer.
[[nodiscard]] Switching switching_of(const Switches& switches, const std::vector<Range>& recompute,
                                     const std::vector<Range>& layers);
// REQUIRES: unpriced(plan) is empty.
[[nodiscard]] Switching switching_of(const Plan& plan, const std::vector<Range>& layers);

// What of the plan H3T's model does not price, each by its place and name with what it needs.
[[nodiscard]] std::vector<std::string> unpriced(const Plan& plan, const std::vector<Range>& layers);

}  // namespace trimtab::tuner::h3t
