#include "targets/replicas.hpp"

#include <algorithm>

#include "targets/plan_stages.hpp"

namespace trimtab {

void need_replicas(const PlanLayers& view, bool offloads, Complaints& complaints) {
  need_one_stage(view, complaints);
  need_devices_in_order(view, false, complaints);
  need_one_split(view, complaints);
  need_no_tensor_parallel(view, complaints);
  need_whole_microbatches(view, complaints);
  need_no_switches(view, offloads, complaints);
  if (view.plan->schedule.kind != ScheduleKind::k1F1B) complaints.push_back("schedule.kind: must be \"1f1b\"");
}

void need_one_recompute(const PlanLayers& view, Complaints& complaints) {
  need_whole_layers_recomputed(view, complaints);
  const auto recomputed =
      std::ranges::count_if(view.parts.layers, [&](const Range& layer) { return view.recomputed(layer); });
  if (recomputed == 0 || recomputed == std::ssize(view.parts.layers)) return;
  complaints.push_back("segments.recompute: must be no layer or every layer, found " + std::to_string(recomputed) +
                       " of " + std::to_string(view.parts.layers.size()));
}

void need_fsdp_level(const PlanLayers& view, const std::string& otherwise, Complaints& complaints) {
  const OperatorSetting& first = view.operators.front();
  if (first.sharded != ShardedLevel::kOptimizer) return;
  complaints.push_back(place_of(first) + ".sharded: must be none, gradients or parameters; " + otherwise);
}

bool recomputes_layers(const PlanLayers& view) {
  return view.recomputed(view.parts.layers.front());
}

std::int32_t samples_of_replica(const PlanLayers& view) {
  return view.plan->microbatch / view.operators.front().dp;
}

ShardedLevel sharded_level(const PlanLayers& view) {
  const Segment& first = view.plan->stages.front().segments.front();
  if (first.dp > 1) return first.sharded_degree == 1 ? ShardedLevel::kNone : first.sharded;
  return offloads_optimizer(*view.plan) ? ShardedLevel::kGradients : ShardedLevel::kNone;
}

Result<Plan> plan_of(const Replicas& replicas, const Model& model, std::string_view target,
                     const std::string& framework) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const std::int64_t together = std::int64_t{replicas.samples} * replicas.ranks;
  const std::int64_t samples = together < kMost ? together * replicas.microbatches : kMost;
  if (samples >= kMost) {
    return bad_input("a step of " + std::to_string(replicas.samples) + " samples x " +
                     std::to_string(replicas.microbatches) + " microbatches x " + std::to_string(replicas.ranks) +
                     " ranks has more samples than a plan may have");
  }
  Plan plan;
  plan.model = model.name;
  plan.global_batch = static_cast<std::int32_t>(samples);
  plan.microbatch = static_cast<std::int32_t>(together);
  Segment like;
  like.dp = replicas.ranks;
  const bool alone = replicas.sharded_degree == 1 || replicas.ranks == 1;
  const bool buckets = replicas.bucket_bytes > 0 && (!alone || replicas.sharded == ShardedLevel::kNone);
  if (buckets) plan.target_knobs[kBucketKnob] = std::to_string(replicas.bucket_bytes);
  like.sharded = alone ? ShardedLevel::kNone : replicas.sharded;
  const bool all = alone || like.sharded == ShardedLevel::kNone || replicas.sharded_degree == replicas.ranks;
  like.sharded_degree = all ? 0 : replicas.sharded_degree;
  like.switches.offload_optimizer = replicas.offload_optimizer;
  TRIMTAB_TRY(const ModelLayers parts, layers_of(model));
  std::vector<bool> recomputed(model.operators.size());
  for (std::int32_t i = 0; std::cmp_less(i, parts.layers.size()); ++i) {
    const bool chosen = replicas.recompute || replicas.recomputed_layers.contains(i);
    const Range& layer = parts.layers[static_cast<std::size_t>(i)];
    for (std::int32_t op = layer.begin; op < layer.end; ++op) recomputed[static_cast<std::size_t>(op)] = chosen;
  }
  TRIMTAB_TRY(plan.stages, plan_stages(
                               model, parts, {{static_cast<std::int32_t>(parts.layers.size())}, 1, replicas.ranks},
                               [&](std::int32_t op) {
                                 return OperatorPlan{like, recomputed[static_cast<std::size_t>(op)]};
                               },
                               "--ranks"));
  TRIMTAB_TRY_STATUS(check_import(plan, model, target, framework));
  return plan;
}

}  // namespace trimtab
