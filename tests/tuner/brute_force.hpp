#pragma once

// Every plan of a small world, one by one, each priced through CostModel::evaluate: the referee of the strategies'
// referee. It enumerates by the plan document's rules alone and shares nothing with the tuner's own enumeration.

#include <cstdint>
#include <optional>
#include <vector>

#include "world.hpp"

namespace trimtab::tuner::test {

// What may vary beside cuts, devices of stages, microbatch, replicas and the recompute of each operator.
struct BruteForceSpace {
  std::vector<std::int32_t> tensor_parallel{1};
  std::vector<std::int32_t> stage_devices;  // empty: any
  std::vector<ShardedLevel> levels{ShardedLevel::kNone};
  bool inside_nodes = false;  // no stage lies on two nodes
  bool sliced = false;        // the warm-up, by every count that a plan may have
  bool sub_batches = false;   // two, in every way that is searched
  // Beside the plans without: one degree of tensor parallelism in each plan.
  std::vector<std::int32_t> context_parallel{1};
  bool sequence_parallel = false;
  bool interleaved = false;     // too: equal groups of devices, on each as many stages, of one split
  bool partial_shards = false;  // over a power of two of the replicas
  bool mixed = false;           // each operator of a stage may be split in its own way, and along its second choice
};

struct BruteForceResult {
  double ms = 0;  // 0: nothing fits
  std::uint64_t plans = 0;
  std::optional<Plan> plan;
};

// What the named space of a search means for a world: "job", "aceso-recompute", "aceso-free" or "all".
[[nodiscard]] BruteForceSpace brute_force_space(const World& world, const std::string& name);

[[nodiscard]] BruteForceResult brute_force(const World& world, const BruteForceSpace& space);

}  // namespace trimtab::tuner::test
