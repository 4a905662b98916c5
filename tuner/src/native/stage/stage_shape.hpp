#pragma once

// How a stage runs: its segments, which devices talk to which, how many microbatches it holds. Ranks of one replica are
// consecutive devices, its tensor-parallel ranks fastest; replicas that share sharded states are consecutive replicas.
// Plain values.

#include <cstdint>
#include <vector>

#include "native/costs/link_costs.hpp"
#include "plan/candidate.hpp"
#include "schema/cluster.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

// How ranks share the sequence of each sample.
struct SequenceShare {
  std::int32_t cp = 1;    // context parallelism: so many groups of tp ranks, each with its part
  bool parallel = false;  // sequence parallelism: what tensor parallelism leaves whole is shared by its ranks
};

// A segment's split with where its groups lie: equal values have equal costs.
struct SplitShape {
  std::int32_t samples = 1;  // per replica
  Split split;               // sharded_degree written out
  std::int32_t cp = 1;
  bool sequence = false;  // sequence parallelism; tp is above 1
  // Of several groups of a kind, the worst of theirs.
  Route tensor;    // the ranks of one replica
  Route context;   // ranks of one replica that exchange keys and values
  Route replicas;  // all replicas
  Route shards;    // replicas that share one copy of the sharded states
  bool operator==(const SplitShape&) const = default;

  [[nodiscard]] bool sharded() const { return split.sharded != ShardedLevel::kNone; }
  [[nodiscard]] bool shares_sequence() const { return cp > 1 || sequence; }
  // Ranks that hold the same parameters, and those of them that share one copy of the sharded states.
  [[nodiscard]] std::int32_t replica_ranks() const { return split.dp * cp; }
  [[nodiscard]] std::int32_t shard_ranks() const { return split.sharded_degree * cp; }
  // Ranks of a replica that share a tensor between operators.
  [[nodiscard]] std::int32_t output_shares() const { return cp * (sequence ? split.tp : 1); }
  // Samples, or parts of them, that a rank receives and sends.
  [[nodiscard]] double samples_received() const { return static_cast<double>(samples) / output_shares(); }
  // Copies of the sharded states.
  [[nodiscard]] std::int32_t copies() const { return sharded() ? split.dp / split.sharded_degree : split.dp; }
};

struct SegmentShape {
  Range operators;
  SplitShape split;
};

struct StageShape {
  Range operators;
  std::vector<SegmentShape> segments;  // at least one
  std::vector<Range> alternate;        // operators split along their second choice
  std::int32_t in_flight = 1;
  bool prefetches = true;        // sharded parameters are gathered one operator ahead
  double bucket_bytes = 0;       // of parameters, whose gradients are reduced together; 0: each operator's alone
  bool gathers_ahead = false;    // buckets of parameters arrive during the next step's first forward
  bool whole_gradients = false;  // sharded gradients stay whole until the last microbatch
};

// REQUIRES: split.dp divides the microbatch. `node_of` by device; `devices` in the stage's order.
[[nodiscard]] SplitShape split_shape(const Routes& routes, const Split& split, std::int32_t microbatch,
                                     const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                                     std::int32_t count, SequenceShare share = {});

[[nodiscard]] std::vector<std::int32_t> nodes_of_devices(const Cluster& cluster);

}  // namespace trimtab::tuner
