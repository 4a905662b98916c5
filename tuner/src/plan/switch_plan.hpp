#pragma once

// Memory switches (H3T, Wang et al. 2023) in a plan: of a stage, and between those of layers and ranges of operators.
// Pure.

#include <optional>
#include <string>
#include <vector>

#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "solvers/h3t/layer_switches.hpp"

namespace trimtab::tuner {

// Whether the plan's stage has switches.
[[nodiscard]] inline bool has_switches(const Switches& switches) {
  return switches != Switches{};
}
// The switches of all of a stage's segments; nothing where it has none.
[[nodiscard]] std::optional<Switches> switches_of(const Stage& stage);
// Those inside of a range of operators.
[[nodiscard]] Switches switches_inside(const Switches& switches, const Range& operators);
// The runs of operators of one layer inside of a stage.
[[nodiscard]] std::vector<Range> layers_inside(const Model& model, const Range& operators);
// Whether operator `cut` begins another layer than the one before it is of.
[[nodiscard]] inline bool between_layers(const Model& model, std::int32_t cut) {
  return model.operators[cut].layer != model.operators[cut - 1].layer;
}

namespace h3t {

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

}  // namespace h3t
}  // namespace trimtab::tuner
