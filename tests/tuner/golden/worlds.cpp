#include "worlds.hpp"
#include "papers/cost_models.hpp"

#include <utility>

#include "../gpt_world.hpp"
#include "../h3t/analytic_documents.hpp"
#include "../oases/published.hpp"
#include "../split_world.hpp"

namespace trimtab::tuner::golden {
namespace {

std::string name_of(const char* maker, std::uint64_t seed, int number) {
  return std::string(maker) + " " + std::to_string(seed) + "/" + std::to_string(number);
}

template <typename Make>
Worlds made(const char* maker, std::uint64_t seed, int count, Make&& make) {
  Random random(seed);
  Worlds worlds;
  for (int i = 0; i < count; ++i) worlds.push_back({name_of(maker, seed, i), make(random, i)});
  return worlds;
}

}  // namespace

std::unique_ptr<CostModel> NamedWorld::model(const std::string& cost_model) const {
  CostTableOptions estimates;
  estimates.allow_estimates = true;
  return make_cost_model(cost_model, world.model, world.cluster, world.costs, estimates).value();
}

Worlds random_worlds(std::uint64_t seed, int count, const test::RandomWorldOptions& options) {
  return made("random", seed, count, [&](Random& random, int) { return test::random_world(random, options); });
}

Worlds split_worlds(std::uint64_t seed, int count, const test::RandomWorldOptions& options) {
  return made("split", seed, count, [&](Random& random, int i) {
    test::World world = test::random_split_world(random, options);
    if (i % 2 == 1) test::add_host_copies(random, world);
    return world;
  });
}

Worlds tight_worlds(std::uint64_t seed, int count, const test::RandomWorldOptions& options) {
  return made("tight", seed, count, [&](Random& random, int) {
    test::World world = test::random_split_world(random, options);
    test::add_host_copies(random, world);
    std::int32_t layer = 0;
    Bytes everything = 0;
    for (Operator& op : world.model.operators) {
      op.layer = layer++;
      everything += op.parameter_bytes * 4 + op.activation_bytes * world.model.global_batch;
    }
    for (Node& node : world.cluster.nodes) node.memory_bytes = everything * random.between(8, 30) / 100;
    return world;
  });
}

Worlds pipeline_worlds(std::uint64_t seed, int count, const test::RandomWorldOptions& options) {
  return made("pipeline", seed, count, [&](Random& random, int) {
    test::World world = test::random_world(random, options);
    world.model.global_batch = 12;
    return world;
  });
}

Worlds gpt_worlds(std::uint64_t seed, int count) {
  return made("gpt", seed, count, [](Random& random, int) {
    test::Workload work = test::gpt(6, 4, 16);
    test::World world{work.model, work.cluster, work.costs};
    test::add_splits(random, world);
    for (Operator& op : world.model.operators) op.shardings = {"default"};
    // Every collective is as fast as the all-reduce of gpt(), so that shards are worth their while.
    for (Cost& cost : world.costs) {
      if (cost.key.kind == CostKind::kCollective) cost = test::exact_cost(cost.key, 200000 + cost.key.bytes / 2);
    }
    return world;
  });
}

namespace {

constexpr const char* kAcesoNames[] = {
    "encoder-embedding", "enc-1st-layernorm", "enc-attention-dropout", "dense", "block-1-relu", "gelu", "post-process"};

void add_cost(CostKey key, double value, test::World& world) {
  Cost cost;
  cost.key = std::move(key);
  cost.statistics.add(static_cast<std::int64_t>(value));
  world.costs.push_back(std::move(cost));
}

void add_operator_cost(CostKind kind, const std::string& subject, std::int32_t samples, std::int32_t tp, double value,
                       test::World& world) {
  CostKey key;
  key.kind = kind;
  key.subject = subject;
  key.dtype = world.model.dtype;
  key.samples = samples;
  key.tp = tp;
  add_cost(std::move(key), value, world);
}

void add_aceso_operator(const std::string& name, Random& random, test::World& world) {
  constexpr std::pair<CostKind, double> kMebibytes[] = {
      {CostKind::kOperatorInputBytes, 3},          {CostKind::kOperatorOutputBytes, 3},
      {CostKind::kOperatorParameterBytes, 5},      {CostKind::kOperatorStoredBytes, 20},
      {CostKind::kOperatorForwardReserveBytes, 2}, {CostKind::kOperatorBackwardReserveBytes, 2}};
  const double each = 1e5 + random.uniform() * 1e6;
  for (std::int32_t samples = 1; samples <= 4; samples *= 2) {
    for (std::int32_t tp = 1; tp <= 4; tp *= 2) {
      const double share = (0.5 + random.uniform()) * samples / tp;
      const double backward = each * share * (1 + random.uniform());
      add_operator_cost(CostKind::kOperatorForward, name, samples, tp, each * share, world);
      add_operator_cost(CostKind::kOperatorBackward, name, samples, tp, backward, world);
      for (const auto& [kind, most] : kMebibytes) {
        add_operator_cost(kind, name, samples, tp, random.uniform() * most * share * 1048576, world);
      }
    }
  }
}

void add_aceso_links(test::World& world) {
  for (const char* const placement : {"intra_node", "inter_node"}) {
    for (std::int64_t mib = 1; mib <= 1024; mib *= 2) {
      CostKey key;
      key.kind = CostKind::kPointToPoint;
      key.bytes = mib << 20;
      key.placement = placement;
      add_cost(key, static_cast<double>(mib * (std::string(placement) == "inter_node" ? 200000 : 60000)), world);
    }
  }
}

test::World aceso_world(Random& random, std::int64_t operators_max) {
  test::World world;
  world.model.name = "small";
  world.model.global_batch = 8;
  world.model.aceso = AcesoFacts{};
  if (random.below(3) == 0) world.model.aceso->recompute_headroom_bytes = Bytes{5} << 20;
  world.model.aceso->resharding = random.below(4) != 0;
  world.model.microbatch_total = world.model.microbatch_per_replica = {1, 2, 4};
  const std::int64_t operators = random.between(operators_max / 2, operators_max);
  for (std::int32_t i = 0; i < operators; ++i) {
    Operator op;
    op.name = op.cost_key = kAcesoNames[random.below(7)];
    op.layer = i / 2;
    world.model.operators.push_back(op);
  }
  for (const char* const name : kAcesoNames) add_aceso_operator(name, random, world);
  add_aceso_links(world);
  const auto nodes = static_cast<std::int32_t>(random.between(1, 2));
  for (std::int32_t n = 0; n < nodes; ++n) {
    Node node;
    node.name = "n" + std::to_string(n);
    node.devices = random.below(2) == 0 ? 2 : 4 / nodes;
    node.memory_bytes = static_cast<Bytes>(random.between(60, 400)) << 20;
    world.cluster.nodes.push_back(node);
  }
  return world;
}

// The bytes that papers/galvatron/profile.hpp reads are those of the largest message.
void add_galvatron_link(const std::string& subject, std::int32_t group, std::int64_t ns, test::World& world) {
  CostKey key;
  key.kind = CostKind::kCollective;
  key.subject = subject;
  key.bytes = Bytes{64} << 20;
  key.group_size = group;
  key.placement = "intra_node";
  add_cost(std::move(key), static_cast<double>(ns), world);
}

void add_galvatron_links(Random& random, test::World& world) {
  for (const std::int32_t group : {2, 4, 8}) {
    add_galvatron_link("all_reduce", group, random.between(2000000, 15000000), world);
    add_galvatron_link("all_reduce.strided", group, random.between(2000000, 15000000), world);
  }
  for (const char* const stages : {"2", "4", "8"}) {
    add_galvatron_link(std::string("send_recv.pp") + stages, 0, random.between(600000, 6000000), world);
  }
  CostKey overlap;
  overlap.kind = CostKind::kOverlapComputation;
  overlap.subject = "all_reduce";
  overlap.bytes = Bytes{64} << 20;
  overlap.group_size = 8;
  overlap.placement = "intra_node";
  add_cost(std::move(overlap), static_cast<double>(random.between(1000000, 1400000)), world);
}

void add_galvatron_layer(const std::string& name, Random& random, test::World& world) {
  const auto forward = static_cast<double>(random.between(500000, 3000000));
  const auto kept = static_cast<double>(random.between(Bytes{20} << 20, Bytes{100} << 20));
  const auto input = static_cast<double>(random.between(Bytes{1} << 20, Bytes{8} << 20));
  add_operator_cost(CostKind::kOperatorForward, name, 1, 1, forward, world);
  add_operator_cost(CostKind::kOperatorInputBytes, name, 1, 1, input, world);
  constexpr std::pair<std::int32_t, double> kShares[] = {{1, 1}, {2, 0.6}, {4, 0.35}, {8, 0.2}};
  for (const auto& [tp, share] : kShares) {
    add_operator_cost(CostKind::kOperatorStoredBytes, name, 1, tp, kept * share, world);
  }
}

GalvatronEnds galvatron_ends(Random& random) {
  GalvatronEnds ends;
  ends.states_mib = static_cast<double>(random.between(10, 100));
  ends.activation_mib = static_cast<double>(random.between(1, 10));
  return ends;
}

test::World galvatron_world(Random& random, std::int64_t context_mib) {
  test::World world;
  world.model.name = "layers";
  world.model.global_batch = 16;
  const std::int64_t layers = random.between(4, 6);
  Bytes parameters[2];
  Bytes outputs[2];
  for (int k = 0; k < 2; ++k) {
    add_galvatron_layer("layer" + std::to_string(k), random, world);
    parameters[k] = random.between(Bytes{10} << 20, Bytes{80} << 20);
    outputs[k] = random.between(Bytes{1} << 20, Bytes{5} << 20);
  }
  for (std::int32_t i = 0; i < layers; ++i) {
    const int k = i < layers / 2 ? 0 : 1;
    Operator op;
    op.name = "layer-" + std::to_string(i);
    op.kind = k == 0 ? "encoder_layer" : "decoder_layer";
    op.layer = i;
    op.cost_key = "layer" + std::to_string(k);
    op.parameter_bytes = parameters[k];
    op.output_bytes = outputs[k];
    world.model.operators.push_back(op);
  }
  add_galvatron_links(random, world);
  world.model.galvatron = GalvatronFacts{};
  GalvatronFacts& facts = *world.model.galvatron;
  facts.overhead_ms = static_cast<double>(random.between(0, 20));
  for (GalvatronEnds* const ends : {&facts.node, &facts.whole, &facts.first, &facts.last}) {
    *ends = galvatron_ends(random);
  }
  Node node;
  node.name = "n0";
  node.devices = 8;
  node.memory_bytes = (context_mib + random.between(400, 1400)) << 20;
  world.cluster.nodes = {node};
  return world;
}

}  // namespace

Worlds aceso_worlds(std::uint64_t seed, int count, std::int64_t operators_max) {
  return made("aceso", seed, count, [=](Random& random, int) { return aceso_world(random, operators_max); });
}

Worlds galvatron_worlds(std::uint64_t seed, int count, std::int64_t context_mib) {
  return made("galvatron", seed, count, [=](Random& random, int) { return galvatron_world(random, context_mib); });
}

Worlds h3t_worlds() {
  struct Setting {
    std::size_t machine, size;
    std::int32_t layers;
    double share;
  };
  Worlds worlds;
  for (const Setting& of : {Setting{1, 0, 6, 0.3}, {1, 1, 8, 0.1}, {0, 0, 6, 0.6}, {0, 2, 5, 0.25}}) {
    const h3t::test::Machine& machine = h3t::test::machines()[of.machine];
    h3t::test::TransformerSize size = h3t::test::sizes()[of.size];
    size.layers = of.layers;
    h3t::test::Documents documents = h3t::test::analytic_documents(machine, size, 8);
    const std::vector<h3t::LayerProfile> layers(static_cast<std::size_t>(of.layers),
                                                h3t::test::analytic_layer(machine, size, 8));
    documents.cluster.nodes.front().memory_bytes = h3t::test::limit_at(layers, machine.fabric, of.share);
    worlds.push_back({"h3t " + machine.name + ", " + size.name + ", " + std::to_string(of.layers) + " layers",
                      {documents.model, documents.cluster, documents.costs}});
  }
  return worlds;
}

Worlds oases_worlds() {
  struct Shortened {
    oases::test::Setting setting;
    std::size_t operators;
    std::int64_t percent;
  };
  Worlds worlds;
  for (const Shortened& of : {Shortened{{"llama-7B", 32}, 6, 100},
                              {{"llama-7B", 32}, 9, 90},
                              {{"llama-7B", 16}, 8, 160},
                              {{"bert-large", 32}, 10, 100},
                              {{"bert-1_3B", 32}, 1000, 100},
                              {{"llama-7B", 32}, 1000, 100}}) {
    oases::test::World world = oases::test::world(of.setting);
    const std::size_t all = world.model.operators.size();
    if (of.operators < all) {
      world.model.operators.resize(of.operators);
      for (Node& node : world.cluster.nodes) {
        node.memory_bytes =
            node.memory_bytes * of.percent / 100 * static_cast<Bytes>(of.operators) / static_cast<Bytes>(all);
      }
    }
    worlds.push_back({"oases " + of.setting.name + ", " + std::to_string(of.setting.devices) + " devices, " +
                          std::to_string(world.model.operators.size()) + " operators",
                      {world.model, world.cluster, world.costs}});
  }
  return worlds;
}

}  // namespace trimtab::tuner::golden
