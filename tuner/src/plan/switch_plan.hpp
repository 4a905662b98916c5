#pragma once

// Memory switches (H3T, Wang et al. 2023) in a plan: of a stage, and between those of layers and ranges of operators.
// Pure.

#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "solvers/h3t/layer_profile.hpp"

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

// A switch of a layer beside its ranges in a plan. `recompute` is a field of the segment itself.
struct SwitchField {
  const char* name;
  bool LayerSwitches::*of_layer;
  std::vector<Range> Switches::*of_plan;
};
inline constexpr std::array<SwitchField, 6> kSwitchFields{{
    {"partition_parameters", &LayerSwitches::partition_parameters, &Switches::partition_parameters},
    {"lazy_prefetch", &LayerSwitches::lazy_prefetch, &Switches::lazy_prefetch},
    {"offload_hidden", &LayerSwitches::offload_hidden, &Switches::offload_hidden},
    {"economical_forward", &LayerSwitches::economical_forward, &Switches::economical_forward},
    {"economical_backward", &LayerSwitches::economical_backward, &Switches::economical_backward},
    {"segment_sync", &LayerSwitches::segment_sync, &Switches::segment_sync},
}};

// How many of the layer's operators lie in the ranges.
[[nodiscard]] std::int32_t covered(const std::vector<Range>& ranges, const Range& layer);

// Of some layers' operators: the switches of a segment, and what it recomputes.
[[nodiscard]] Switches plan_switches(const std::vector<Range>& layers, const Switching& switches);
[[nodiscard]] std::vector<Range> rematerialized(const std::vector<Range>& layers, const Switching& switches);

// What those say of each layer.
[[nodiscard]] Switching switching_of(const Switches& switches, const std::vector<Range>& recompute,
                                     const std::vector<Range>& layers);

}  // namespace h3t
}  // namespace trimtab::tuner
