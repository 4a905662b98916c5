#include "plan/switch_plan.hpp"

#include <algorithm>

namespace trimtab::tuner {
std::optional<Switches> switches_of(const Stage& stage) {
  Switches all;
  for (const Segment& segment : stage.segments) {
    all.offload_optimizer = all.offload_optimizer || segment.switches.offload_optimizer;
    for (const h3t::SwitchField& field : h3t::kSwitchFields) {
      const std::vector<Range>& ranges = segment.switches.*field.of_plan;
      (all.*field.of_plan).insert((all.*field.of_plan).end(), ranges.begin(), ranges.end());
    }
  }
  for (const h3t::SwitchField& field : h3t::kSwitchFields) {
    all.*field.of_plan = normalized(std::move(all.*field.of_plan));
  }
  return has_switches(all) ? std::optional(std::move(all)) : std::nullopt;
}

Switches switches_inside(const Switches& switches, const Range& operators) {
  Switches inside;
  inside.offload_optimizer = switches.offload_optimizer;
  for (const h3t::SwitchField& field : h3t::kSwitchFields) {
    for (const Range& range : switches.*field.of_plan) {
      const Range clipped{std::max(range.begin, operators.begin), std::min(range.end, operators.end)};
      if (clipped.begin < clipped.end) (inside.*field.of_plan).push_back(clipped);
    }
  }
  return inside;
}

std::vector<Range> layers_inside(const Model& model, const Range& operators) {
  std::vector<Range> layers;
  for (std::int32_t i = operators.begin; i < operators.end; ++i) {
    if (i == operators.begin || between_layers(model, i)) layers.push_back({i, i});
    layers.back().end = i + 1;
  }
  return layers;
}

namespace h3t {
namespace {

std::vector<Range> ranges_of(const std::vector<Range>& layers, const Switching& switches,
                             bool LayerSwitches::*of_layer) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (switches[i].*of_layer) ranges.push_back(layers[i]);
  }
  return normalized(std::move(ranges));
}

}  // namespace

std::int32_t covered(const std::vector<Range>& ranges, const Range& layer) {
  std::int32_t count = 0;
  for (const Range& range : ranges) {
    count += std::max(0, std::min(range.end, layer.end) - std::max(range.begin, layer.begin));
  }
  return count;
}

Switches plan_switches(const std::vector<Range>& layers, const Switching& switches) {
  Switches of;
  for (const SwitchField& field : kSwitchFields) of.*field.of_plan = ranges_of(layers, switches, field.of_layer);
  of.offload_optimizer = true;
  return of;
}

std::vector<Range> rematerialized(const std::vector<Range>& layers, const Switching& switches) {
  return ranges_of(layers, switches, &LayerSwitches::rematerialize);
}

Switching switching_of(const Switches& switches, const std::vector<Range>& recompute,
                       const std::vector<Range>& layers) {
  Switching of(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    of[i].rematerialize = covered(recompute, layers[i]) > 0;
    for (const SwitchField& field : kSwitchFields)
      of[i].*field.of_layer = covered(switches.*field.of_plan, layers[i]) > 0;
  }
  return of;
}

}  // namespace h3t
}  // namespace trimtab::tuner
