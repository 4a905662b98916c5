#pragma once

// How a stage runs: its segments, which devices talk to which, how many microbatches it holds. Ranks of one replica are
// consecutive devices, its tensor-parallel ranks fastest; replicas that share sharded states are consecutive replicas.
// Plain values.

#include <algorithm>

#include "native/costs/link_costs.hpp"
#include "plan/candidate.hpp"
#include "tuner/calibration.hpp"

namespace trimtab::tuner {

[[nodiscard]] inline std::int64_t whole(double bytes) {
  return static_cast<std::int64_t>(std::llround(bytes));
}

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

// Of a tensor that ranks of a replica receive, each has one part of so many.
[[nodiscard]] inline std::int32_t output_shares(const SequenceShare& share, std::int32_t tp) {
  return share.cp * (share.parallel ? tp : 1);
}

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

// Devices that are slower than those which the costs were measured on. Pure.

// How many times as long each device computes; empty where all are as fast as the costs say. A device that is faster
// counts as one that is not: lower bounds are made of the costs.
[[nodiscard]] inline std::vector<double> slowness_of_devices(const Cluster& cluster) {
  const bool even = std::all_of(cluster.nodes.begin(), cluster.nodes.end(), [](const Node& node) {
    return std::all_of(node.speeds.begin(), node.speeds.end(), [](double speed) { return speed >= 1; });
  });
  std::vector<double> slowness;
  for (const Node& node : cluster.nodes) {
    for (std::int32_t i = 0; i < node.devices && !even; ++i) slowness.push_back(std::max(1.0, 1 / node.speed_of(i)));
  }
  return slowness;
}

// What a stage's price takes of a calibration, as it holds on these devices: the slowest decides how long a stage
// computes. The operators' own factors are in the cost table already, and are not copied.
[[nodiscard]] inline Calibration slowed(const Calibration& calibration, const std::vector<double>& slowness,
                                        const std::int32_t* devices, std::int32_t count) {
  double slowest = 1;
  for (std::int32_t i = 0; i < count && !slowness.empty(); ++i) slowest = std::max(slowest, slowness[devices[i]]);
  Calibration result;
  result.computation = {calibration.computation.value * slowest, calibration.computation.log_sigma};
  result.communication = calibration.communication;
  result.classes = calibration.classes;
  result.overlap = calibration.overlap;
  result.launching = calibration.launching;
  return result;
}

// Which stages lie alike, so that what one costs holds for the other: on as many devices, from the same device of a
// node on, over nodes of the same kinds, with the same links between them. A kind is all that a stage's price reads of
// a node. One per evaluator; not thread-safe.
class StagePlaces {
 public:
  explicit StagePlaces(const Cluster& cluster);

  // The first device of the first run of `devices` that lies like the run from `first_device` on.
  // REQUIRES: devices > 0, and the cluster has them all.
  [[nodiscard]] std::int32_t of(std::int32_t first_device, std::int32_t devices);

 private:
  void set_links(const Cluster& cluster);
  [[nodiscard]] std::int32_t link_of(std::int32_t a, std::int32_t b) const;
  [[nodiscard]] const std::vector<std::int32_t>& first_nodes(std::int32_t nodes);

  std::vector<std::int32_t> node_of_;   // by device
  std::vector<std::int32_t> begin_of_;  // by node: its first device
  std::vector<std::int32_t> kind_of_;   // by node: the first node like it
  bool alike_ = true;                   // all nodes, and the links between them
  // Of links that are given for two nodes, the first node first: the first link like it, counted from 1.
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> link_of_;
  // By count of nodes less one, by node: the first node that as many nodes of the same kinds in the same order, with
  // the same links, begin at.
  std::vector<std::vector<std::int32_t>> first_nodes_;
};

}  // namespace trimtab::tuner
