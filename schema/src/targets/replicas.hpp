#pragma once

// Replicas in one stage: what PyTorch's data parallelism runs, and the frameworks that stand on it. Pure.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "targets/plan_layers.hpp"

namespace trimtab {

// One stage of whole replicas in the order of their ranks, all of one split, without slices and switches (but, where
// `offloads`, that of the optimizer). What is recomputed are whole layers.
void need_replicas(const PlanLayers& view, bool offloads, Complaints& complaints);
// All layers or none.
void need_one_recompute(const PlanLayers& view, Complaints& complaints);
// What FSDP shards: nothing, gradients or parameters.
void need_fsdp_level(const PlanLayers& view, const std::string& otherwise, Complaints& complaints);

// REQUIRES: the checks above have nothing to say.
[[nodiscard]] bool recomputes_layers(const PlanLayers& view);
[[nodiscard]] std::int32_t samples_of_replica(const PlanLayers& view);  // in a microbatch
// On one rank nothing is shared: what offloads has a level there all the same, since DeepSpeed wants one.
[[nodiscard]] ShardedLevel sharded_level(const PlanLayers& view);

// What a configuration says of replicas.
struct Replicas {
  std::int32_t ranks = 1;
  std::int32_t samples = 1;  // of a microbatch of one rank
  std::int32_t microbatches = 1;
  ShardedLevel sharded = ShardedLevel::kNone;
  std::int32_t sharded_degree = 0;  // 0 = ranks
  bool offload_optimizer = false;
  bool recompute = false;                    // every layer
  std::set<std::int32_t> recomputed_layers;  // these, where it is not every one
  std::int64_t bucket_bytes = 0;             // 0 = not said
};

// The plan of them, which the target can be told (check_import). Fails where there are more samples than a plan may
// have. REQUIRES: counts above 0.
[[nodiscard]] Result<Plan> plan_of(const Replicas& replicas, const Model& model, std::string_view target,
                                   const std::string& framework);

}  // namespace trimtab
