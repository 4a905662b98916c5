#include "plan/target_space.hpp"

#include <algorithm>

#include "schema/target.hpp"

namespace trimtab::tuner {
namespace {

// Stages begin with a layer, or with what stands behind the last.
bool between_layers(const ModelLayers& layers, std::int32_t cut) {
  const auto begins = [cut](const Range& layer) { return layer.begin == cut; };
  return cut == layers.after.begin || std::any_of(layers.layers.begin(), layers.layers.end(), begins);
}

// Knobs that the job does not honour are fixed, whatever a wider space has switched on.
void hold_knobs(PlanSpace& space) {
  if (!space.knobs.tensor_parallel) space.tensor_parallel = {1};
  if (!space.knobs.sharded) space.sharded = {ShardedLevel::kNone};
}

}  // namespace

Status restrict_to_target(const std::string& target, const Model& model, PlanSpace& space) {
  TRIMTAB_TRY(const TargetLimits limits, target_limits(target));
  space.alternate_dimensions = false;
  if (target == "trainer") {
    space.switches.lazy_needs_partition = true;
    return {};
  }
  space.memory_switches = false;
  TRIMTAB_TRY(const ModelLayers layers, layers_of(model));
  space.sliced_microbatches = false;
  space.sub_batches = {{}};
  space.equal_stages = true;
  if (!limits.pipeline) space.stages_max = std::min(space.stages_max, 1);
  if (limits.tensor_parallel == Reach::kNone) space.tensor_parallel = {1};
  if (limits.tensor_parallel != Reach::kLayer) space.mixed_splits = false;
  if (limits.recompute == Reach::kNone) space.knobs.recompute = false;
  hold_knobs(space);
  std::erase_if(space.sharded, [&](ShardedLevel level) {
    return std::find(limits.levels.begin(), limits.levels.end(), level) == limits.levels.end();
  });
  std::erase_if(space.cuts, [&](std::int32_t cut) { return !between_layers(layers, cut); });
  return {};
}

}  // namespace trimtab::tuner
