#include "split_world.hpp"

#include <map>

namespace trimtab::tuner::test {
namespace {

bool is_time(CostKind kind) {
  return kind == CostKind::kOperatorForward || kind == CostKind::kOperatorBackward;
}

bool is_of_operator(CostKind kind) {
  return is_time(kind) || kind == CostKind::kOperatorStoredBytes || kind == CostKind::kOperatorWorkingBytes;
}

// What `tp` ranks leave of an operator's time and memory, in percent.
struct Share {
  std::int64_t time, memory;
};

void measure_ranks(Random& random, std::int32_t tp, const char* sharding, World& world) {
  std::map<std::string, Share> shares;
  const std::vector<Cost> measured = world.costs;
  for (const Cost& cost : measured) {
    if (!is_of_operator(cost.key.kind) || cost.key.tp > 1 || cost.key.sharding != "default") continue;
    auto found = shares.find(cost.key.subject);
    if (found == shares.end()) {
      const Share share{random.between(90 / tp, 150 / tp), random.between(100 / tp, 120 / tp)};
      found = shares.emplace(cost.key.subject, share).first;
    }
    const auto value = static_cast<std::int64_t>(cost.statistics.mean());
    CostKey key = cost.key;
    key.tp = tp;
    key.sharding = sharding;
    const std::int64_t percent = is_time(key.kind) ? found->second.time : found->second.memory;
    world.costs.push_back(exact_cost(key, value * percent / 100));
  }
}

void add_collectives(Random& random, World& world) {
  const std::int64_t latency = random.between(0, 300000);
  const std::int64_t slope = random.between(0, 2000000);
  for (const char* const primitive : {"all_gather", "reduce_scatter", "all_to_all"}) {
    for (const std::int64_t bytes : {1, 1000000}) {
      for (std::int32_t group = 2; group <= world.cluster.devices(); ++group) {
        CostKey key = link_key(CostKind::kCollective, bytes, group);
        key.subject = primitive;
        world.costs.push_back(exact_cost(key, latency + slope * bytes / 1000));
      }
    }
  }
}

void cut_into_two_nodes(Random& random, World& world) {
  Node& first = world.cluster.nodes[0];
  Node second = first;
  second.name = "n1";
  second.devices = first.devices / 2;
  first.devices -= second.devices;
  world.cluster.nodes.push_back(second);
  const std::int64_t slower = random.between(100, 500);
  const std::vector<Cost> measured = world.costs;
  for (const Cost& cost : measured) {
    if (cost.key.placement != "intra_node") continue;
    CostKey key = cost.key;
    key.placement = "inter_node";
    const bool overlap = key.kind == CostKind::kOverlapComputation || key.kind == CostKind::kOverlapCommunication;
    const auto value = static_cast<std::int64_t>(cost.statistics.mean());
    world.costs.push_back(exact_cost(key, overlap ? value : value * slower / 100));
  }
}

}  // namespace

void add_host_copies(Random& random, World& world) {
  const std::vector<Cost> measured = world.costs;
  const std::int64_t slower = random.between(100, 300);
  for (const Cost& cost : measured) {
    if (cost.key.kind != CostKind::kOptimizerStep) continue;
    CostKey key = cost.key;
    key.placement = "host";
    world.costs.push_back(exact_cost(key, static_cast<std::int64_t>(cost.statistics.mean()) * slower / 100));
  }
  const std::int64_t each = random.between(1, 300);
  for (const char* const direction : {"host_to_device", "device_to_host"}) {
    for (const std::int64_t bytes : {1, 1000000}) {
      CostKey key = link_key(CostKind::kPointToPoint, bytes);
      key.subject = direction;
      world.costs.push_back(exact_cost(key, 5000 + each * bytes));
    }
  }
}

void add_splits(Random& random, World& world) {
  for (Operator& op : world.model.operators) {
    // So many that an operator's time is now and then less than they take.
    op.tensor_all_reduces = static_cast<std::int32_t>(random.below(3));
    if (random.below(2) == 0) op.shardings.push_back("alternate");
  }
  for (const std::int32_t tp : {2, 4}) {
    measure_ranks(random, tp, "default", world);
    measure_ranks(random, tp, "alternate", world);
  }
  add_collectives(random, world);
}

namespace {

void add_seen(Random& random, CostKey key, World& world) {
  Cost cost;
  cost.key = std::move(key);
  cost.key.algorithm = "ring";
  const std::int64_t ppm = random.between(1000000, 1700000);
  for (int i = 0; i < 6; ++i) cost.statistics.add(ppm);
  world.costs.push_back(cost);
}

// Everything of one group.
void add_group_slowdowns(Random& random, std::int32_t group, const std::string& placement, World& world) {
  for (const std::string primitive : {"all_reduce", "reduce_scatter", "all_gather"}) {
    CostKey key = link_key(CostKind::kOverlapComputation, std::int64_t{1} << random.between(6, 11), group);
    key.placement = placement;
    for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
      key.kind = kind;
      key.subject = primitive;
      for (const char* const kernel_class : {"gemm", "attention", "normalization", "other"}) {
        key.kernel_class = kernel_class;
        add_seen(random, key, world);
      }
    }
    for (const std::string other : {"all_reduce", "reduce_scatter", "all_gather"}) {
      key.subject = primitive + "+" + other;
      key.kernel_class = "communication";
      add_seen(random, key, world);
    }
  }
}

}  // namespace

void add_training_slowdowns(Random& random, World& world) {
  constexpr const char* kKinds[] = {"attention", "mlp", "norm", "embedding", "layer"};
  for (Operator& op : world.model.operators) op.kind = kKinds[random.below(5)];
  for (std::int32_t group = 2; group <= world.cluster.devices(); ++group) {
    for (const char* const placement : {"intra_node", "inter_node"}) {
      if (random.below(4) != 0) add_group_slowdowns(random, group, placement, world);
    }
  }
}

World random_split_world(Random& random, const RandomWorldOptions& options) {
  World world = random_world(random, options);
  add_splits(random, world);
  if (world.cluster.devices() > 1 && random.below(3) == 0) cut_into_two_nodes(random, world);
  return world;
}

}  // namespace trimtab::tuner::test
