// Memory switches in one search with everything else, against the exhaustive strategy, which sets every combination of
// every layer.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "schema/plan.hpp"
#include "schema/target.hpp"
#include "split_world.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "usual_worlds.hpp"

namespace trimtab::tuner {
namespace {

SearchResult run(const NativeCostModel& model, const char* strategy, std::vector<std::string> without,
                 const char* target = "") {
  SearchOptions options;
  options.remedies = false;
  options.target = target;
  options.strategy = strategy;
  options.space = "all";
  options.without = std::move(without);
  return search(model, Knobs{}, options).value().result;
}

bool switches(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return stage.segments.front().switches != Switches{}; });
}

bool mixes_splits(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
    return stage.segments.size() > 1 && stage.segments.front().switches != Switches{};
  });
}

// Memory that what fits without switches hardly has.
test::World tight_world(Random& random, const test::RandomWorldOptions& sizes) {
  test::World world = test::random_split_world(random, sizes);
  test::add_host_copies(random, world);
  const std::int64_t percent = random.between(20, 100);
  for (Node& node : world.cluster.nodes) node.memory_bytes = node.memory_bytes * percent / 100;
  return world;
}

// Every operator is a layer, and now and then a host has little memory too.
test::World layered_world(Random& random) {
  test::World world = tight_world(random, {2, 2, 2});
  std::int32_t layer = 0;
  for (Operator& op : world.model.operators) op.layer = layer++;
  if (random.below(3) > 0) return world;
  const auto times = static_cast<Bytes>(random.between(1, 4));
  for (Node& node : world.cluster.nodes) node.host_memory_bytes = times * node.memory_bytes;
  return world;
}

// Left out: plans with switches are not sliced.
const std::vector<std::string> kUnsliced{"sliced_microbatches"};

struct Compared {
  int cases = 0, exact = 0, switched = 0;
  int mixed = 0;  // of those with switches, in stages of several splits
};

template <typename MakeWorld>
Compared compare(const char* what, std::uint64_t seed, int worlds, MakeWorld&& make_world, const char* target = "") {
  Random random(seed);
  Compared all;
  double largest = 0;
  for (int i = 0; i < test::tried(test::usual_few(worlds)); ++i) {
    const test::World world = make_world(random);
    const NativeCostModel model(world.table());
    const SearchResult referee = run(model, "exhaustive", kUnsliced, target);
    const SearchResult found = run(model, "unified", kUnsliced, target);
    INFO(what << ", seed " << seed << ", case " << i);
    REQUIRE(found.plans.empty() == referee.plans.empty());
    if (found.plans.empty()) continue;
    const RankedPlan& best = found.plans.front();
    REQUIRE(validate(best.plan, world.model, world.cluster).empty());
    if (*target != '\0') REQUIRE(unhonoured(best.plan, world.model, target).value().empty());
    const double gap = best.prediction.iteration_ms / referee.plans.front().prediction.iteration_ms - 1;
    REQUIRE(found.lower_bound_ms <= referee.plans.front().prediction.iteration_ms * (1 + 1e-9));
    if (referee.proven) REQUIRE(gap >= -1e-9);
    ++all.cases;
    if (gap <= 1e-9) ++all.exact;
    const Plan& first = referee.plans.front().plan;
    if (switches(first)) ++all.switched;
    if (mixes_splits(first)) ++all.mixed;
    largest = std::max(largest, gap);
  }
  std::printf(
      "unified's gap to exhaustive with memory switches, %s, seed %llu: %d cases, %d with switches (%d of several "
      "splits), %d "
      "exact, largest %.4f %%\n",
      what, static_cast<unsigned long long>(seed), all.cases, all.switched, all.mixed, all.exact, 100 * largest);
  return all;
}

TEST_CASE("unified finds the exhaustive optimum with memory switches") {
  const Compared all = compare("one layer", 913, 40, [](Random& random) { return tight_world(random, {2, 2, 1}); });
  CHECK(all.switched >= test::at_least(test::usual_few(4)));
  CHECK(all.exact == all.cases);
}

// Operators as the trainer has them, which splits each along one dimension.
test::World trainer_world(Random& random) {
  test::World world = layered_world(random);
  for (Operator& op : world.model.operators) op.shardings = {"default"};
  return world;
}

TEST_CASE("unified finds the exhaustive optimum among the switches that the trainer has") {
  const Compared all = compare("the trainer's", 915, 40, trainer_world, "trainer");
  CHECK(all.switched >= test::at_least(test::usual_few(3)));
  CHECK(all.exact == all.cases);
}

TEST_CASE("unified finds the exhaustive optimum where each of two layers has switches and splits of its own") {
  const Compared all = compare("layers", 914, 56, layered_world);
  CHECK(all.switched >= test::at_least(test::usual_few(3)));
  CHECK(all.exact == all.cases);
}

// One of two layers.
struct TestLayer {
  test::OperatorTruth truth;
  bool gains = true;  // two tensor-parallel ranks take half of its time; else as long as one
};

void measure_two_ranks(const Cost& cost, bool gains, test::World& world) {
  const CostKind kind = cost.key.kind;
  const bool time = kind == CostKind::kOperatorForward || kind == CostKind::kOperatorBackward;
  if (!time && kind != CostKind::kOperatorStoredBytes && kind != CostKind::kOperatorWorkingBytes) return;
  CostKey key = cost.key;
  key.tp = 2;
  const auto value = static_cast<std::int64_t>(cost.statistics.mean());
  world.costs.push_back(test::exact_cost(key, time && !gains ? value : value / 2));
}

// Two layers on two devices. `link` and `copy` are ns for a kilobyte and for a byte.
test::World two_layers(const TestLayer& first, const TestLayer& second, std::int64_t link, std::int64_t copy) {
  test::World world = test::make_world({first.truth, second.truth}, 2, 4, {1, 2, 4});
  test::add_links(world, 1000, link);
  std::int32_t layer = 0;
  for (Operator& op : world.model.operators) {
    op.layer = layer++;
    op.tensor_all_reduces = 1;
  }
  const std::vector<Cost> measured = world.costs;
  for (const Cost& cost : measured) {
    measure_two_ranks(cost, (cost.key.subject == first.truth.cost_key ? first : second).gains, world);
    const auto value = static_cast<std::int64_t>(cost.statistics.mean());
    CostKey key = cost.key;
    if (key.kind == CostKind::kOptimizerStep) {
      key.placement = "host";
      world.costs.push_back(test::exact_cost(key, value));
    }
    for (const char* const primitive : {"all_gather", "reduce_scatter", "all_to_all"}) {
      if (key.kind != CostKind::kCollective) break;
      key.subject = primitive;
      world.costs.push_back(test::exact_cost(key, value));
    }
  }
  for (const char* const direction : {"host_to_device", "device_to_host"}) {
    for (const std::int64_t bytes : {1, 1000000}) {
      CostKey key = test::link_key(CostKind::kPointToPoint, bytes);
      key.subject = direction;
      world.costs.push_back(test::exact_cost(key, 100 + copy * bytes));
    }
  }
  return world;
}

TestLayer random_layer(Random& random, const char* name) {
  TestLayer layer;
  layer.truth.cost_key = name;
  layer.truth.forward_ns = random.between(500000, 2000000);
  layer.truth.backward_ns = 2 * layer.truth.forward_ns;
  layer.truth.stored_bytes = 1000 * random.between(1, 20);
  layer.truth.parameter_bytes = random.below(2) == 0 ? random.between(100000, 400000) : random.between(1000, 20000);
  layer.truth.optimizer_ns = 2 * layer.truth.parameter_bytes;
  layer.truth.output_bytes = random.between(100, 1000);
  layer.gains = random.below(2) == 0;
  return layer;
}

// Memory around what half of the states take, now and then a host's too.
test::World unlike_world(Random& random) {
  const TestLayer first = random_layer(random, "first");
  const TestLayer second = random_layer(random, "second");
  test::World world = two_layers(first, second, random.between(1000, 20000), random.between(1, 10));
  const Bytes half = 2 * (first.truth.parameter_bytes + second.truth.parameter_bytes);
  const Bytes device = half * random.between(30, 110) / 100;
  const Bytes host = random.below(3) == 0 ? 2 * half * random.between(80, 200) / 100 : 0;
  for (Node& node : world.cluster.nodes) {
    node.memory_bytes = device;
    node.host_memory_bytes = host;
  }
  return world;
}

TEST_CASE("unified finds the exhaustive optimum where splits that differ fit with memory switches alone") {
  const Compared all = compare("unlike layers", 8, 60, unlike_world);
  CHECK(all.cases >= test::at_least(test::usual_few(20)));
  CHECK(all.switched >= test::at_least(test::usual_few(15)));
  CHECK(all.mixed >= test::at_least(test::usual_few(4)));
  CHECK(all.exact == all.cases);
}

// One of many parameters, which two tensor-parallel ranks run in half of the time, and one of many activations, which
// they run no faster than one.
test::World unlike_layers(Bytes memory) {
  TestLayer wide;
  wide.truth.cost_key = "wide";
  wide.truth.parameter_bytes = 400000;
  wide.truth.optimizer_ns = 1000000;
  wide.truth.output_bytes = 1000;
  TestLayer narrow = wide;
  narrow.truth.cost_key = "narrow";
  narrow.truth.stored_bytes = 20000;
  narrow.truth.parameter_bytes = 1000;
  narrow.truth.optimizer_ns = 10000;
  narrow.gains = false;
  test::World world = two_layers(wide, narrow, 10000, 1);
  for (Node& node : world.cluster.nodes) node.memory_bytes = memory;
  return world;
}

TEST_CASE("tensor parallelism in one layer and replicas in the next fit with the optimizer on the host alone") {
  const NativeCostModel model(unlike_layers(745000).table());
  const SearchResult referee = run(model, "exhaustive", kUnsliced);
  const SearchResult found = run(model, "unified", kUnsliced);
  REQUIRE_FALSE(found.plans.empty());
  const RankedPlan& best = found.plans.front();
  CHECK(best.prediction.iteration_ms == Approx(referee.plans.front().prediction.iteration_ms).epsilon(1e-9));
  REQUIRE(best.plan.stages.size() == 1);
  const std::vector<Segment>& segments = best.plan.stages[0].segments;
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].tp == 2);
  CHECK(segments[1].dp == 2);
  for (const Segment& segment : segments) CHECK(segment.switches.offload_optimizer);
  // One split of the whole stage, with switches or without, is far slower.
  const SearchResult one_split = run(model, "unified", {"sliced_microbatches", "mixed_splits"});
  REQUIRE_FALSE(one_split.plans.empty());
  CHECK(one_split.plans.front().prediction.iteration_ms > 1.4 * best.prediction.iteration_ms);
  // With more memory nothing needs the host.
  const SearchResult ample = run(NativeCostModel(unlike_layers(4000000).table()), "unified", kUnsliced);
  CHECK_FALSE(switches(ample.plans.front().plan));
}

}  // namespace
}  // namespace trimtab::tuner
