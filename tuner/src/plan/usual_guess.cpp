#include <algorithm>

#include "plan/plan_space.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

struct Shape {
  std::int32_t microbatch = 1;
  std::vector<std::int32_t> devices;  // per stage
};

std::int32_t spread(const std::vector<std::int32_t>& split) {
  const auto [low, high] = std::ranges::minmax_element(split);
  return *high - *low;
}

// The deepest pipeline that uses every device, as evenly as some microbatch allows; the smallest such microbatch.
Shape usual_shape(const Model& model, const PlanSpace& space) {
  for (std::int32_t stages = space.stages_max; stages >= space.stages_min; --stages) {
    Shape best;
    for (const std::int32_t microbatch : space.microbatches) {
      std::vector<std::int32_t> split = space.even_split(model, microbatch, stages);
      if (split.empty()) continue;
      if (best.devices.empty() || spread(split) < spread(best.devices)) best = {microbatch, std::move(split)};
    }
    if (!best.devices.empty()) return best;
  }
  // No plan uses every device: the rules that this one breaks say why.
  return {space.microbatches.empty() ? 1 : space.microbatches.front(), {space.devices}};
}

// Replicas, or ranks that share operators where the job has no replicas.
Split usual_split(const Model& model, const PlanSpace& space, std::int32_t microbatch, std::int32_t devices) {
  const std::vector<Split> splits = space.splits(model, microbatch, devices);
  return splits.empty() ? Split{devices, 1} : splits.front();
}

Stage make_stage(Range operators, std::int32_t first_device, std::int32_t devices, const Split& split, bool recompute) {
  Segment segment;
  segment.operators = operators;
  segment.dp = split.dp;
  segment.tp = split.tp;
  if (recompute) segment.recompute = {operators};
  Stage stage;
  for (std::int32_t i = 0; i < devices; ++i) stage.devices.push_back(first_device + i);
  stage.segments = {segment};
  return stage;
}

}  // namespace

Plan usual_guess(const Model& model, const Cluster& cluster, const Knobs& knobs) {
  // Where the job cannot change its microbatch, the guess is what fixes it.
  Knobs any_microbatch = knobs;
  any_microbatch.microbatch = true;
  const PlanSpace space = plan_space(model, cluster, any_microbatch, 0);
  const Shape shape = usual_shape(model, space);
  const auto stages = static_cast<std::int32_t>(shape.devices.size());
  std::vector<std::int32_t> begins = even_cuts(model, stages);
  begins.push_back(space.operators);
  Plan plan;
  plan.model = model.name;
  plan.global_batch = model.global_batch;
  plan.microbatch = shape.microbatch;
  std::int32_t begin = 0;
  std::int32_t device = 0;
  for (std::int32_t s = 0; s < stages; ++s) {
    const Split split = usual_split(model, space, shape.microbatch, shape.devices[s]);
    plan.stages.push_back(make_stage({begin, begins[s]}, device, shape.devices[s], split, knobs.recompute));
    begin = begins[s];
    device += shape.devices[s];
  }
  return plan;
}

}  // namespace trimtab::tuner
