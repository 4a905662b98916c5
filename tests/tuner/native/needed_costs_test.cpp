#include "tuner/needed_costs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <tuple>

#include "schema/costs/sequence_sharing.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

// An embedding, pairs of attention and feedforward, a head; none measured.
test::World transformer(std::int32_t layers, std::int32_t devices, std::int32_t batch) {
  std::vector<test::OperatorTruth> operators;
  const auto add = [&operators](const std::string& key, Bytes parameters) {
    test::OperatorTruth truth;
    truth.cost_key = key;
    truth.parameter_bytes = parameters;
    truth.output_bytes = 4096;
    truth.stored_bytes = 20000;
    operators.push_back(truth);
  };
  add("embedding", 400000);
  for (std::int32_t i = 0; i < layers; ++i) {
    add("attention", 100000);
    add("feedforward", 200000);
  }
  add("head", 400000);
  test::World world = test::make_world(operators, devices, batch, {1});
  world.model.operators.back().output_bytes = 4;
  world.model.operators[2].forward_flops = 1000;
  world.costs.clear();
  return world;
}

std::int64_t count(const std::vector<CostKey>& keys, CostKind kind) {
  return std::count_if(keys.begin(), keys.end(), [kind](const CostKey& key) { return key.kind == kind; });
}

std::size_t items(const std::string& json) {
  std::size_t found = 0;
  for (std::size_t at = json.find("\"kind\""); at != std::string::npos; at = json.find("\"kind\"", at + 1)) ++found;
  return found;
}

TEST_CASE("the needed costs are few and every plan can be priced with them") {
  test::World world = transformer(4, 4, 16);
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, Knobs{}, {});
  CHECK(count(keys, CostKind::kOperatorForward) == 4 * 5);  // four kinds; 1, 2, 4, 8 or 16 samples
  CHECK(count(keys, CostKind::kOptimizerStep) == 4);
  CHECK(count(keys, CostKind::kCollective) == 2 * 3);  // 2 or 4 replicas; 3 divides no microbatch; three sizes occur
  CHECK(count(keys, CostKind::kPointToPoint) == 5);
  CHECK(count(keys, CostKind::kOverlapComputation) == 2);
  CHECK(count(keys, CostKind::kProcessBytes) == 1);
  CHECK(std::is_sorted(keys.begin(), keys.end()));
  for (const CostKey& key : keys) {
    const std::int64_t value = key.kind == CostKind::kProcessBytes ? 0 : 1000 + 500 * key.samples + key.bytes / 100;
    world.costs.push_back(test::exact_cost(key, value));
  }
  const CostTable table = world.table();
  SearchOptions options;
  options.plans = 1000000;
  options.max_evaluations = 4000;
  options.strategy = "exhaustive";
  const NativeCostModel model(table);
  const SearchOutcome outcome = search(model, Knobs{}, options).value();
  CHECK(outcome.result.plans.size() > 500);
  for (const RankedPlan& ranked : outcome.result.plans) REQUIRE(ranked.prediction.missing_costs.empty());
}

TEST_CASE("with every knob too, every plan can be priced with the needed costs") {
  test::World world = transformer(2, 4, 8);
  for (Operator& op : world.model.operators) op.tensor_all_reduces = op.cost_key == "head" ? 0 : 1;
  Knobs knobs;
  knobs.tensor_parallel = knobs.sharded = knobs.sub_batches = knobs.sliced_microbatches = true;
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, knobs, {});
  CHECK(keys.size() == 250);
  for (const CostKey& key : keys) {
    const std::int64_t value =
        key.kind == CostKind::kProcessBytes ? 0 : 1000 + 500 * key.samples / key.tp + key.bytes / 100;
    world.costs.push_back(test::exact_cost(key, value));
  }
  CHECK(needed_costs(world.model, world.cluster, knobs, world.costs).empty());
  const CostTable table = world.table();
  const NativeCostModel model(table);
  SearchOptions options;
  options.plans = 1000000;
  options.max_evaluations = 20000;
  options.strategy = "exhaustive";
  const SearchOutcome outcome = search(model, knobs, options).value();
  CHECK(outcome.result.stopped == "exhausted");
  std::set<std::int32_t> tensor;
  std::set<ShardedLevel> levels;
  bool halved = false;
  for (const RankedPlan& ranked : outcome.result.plans) {
    REQUIRE(ranked.prediction.missing_costs.empty());
    REQUIRE(ranked.prediction.estimated_costs.empty());
    REQUIRE(validate(ranked.plan, world.model, world.cluster, knobs).empty());
    halved = halved || ranked.plan.schedule.sub_batches > 1;
    for (const Stage& stage : ranked.plan.stages) {
      tensor.insert(stage.segments[0].tp);
      levels.insert(stage.segments[0].sharded);
    }
  }
  CHECK(tensor == std::set<std::int32_t>{1, 2, 4});
  CHECK(levels.size() == 4);
  CHECK(halved);
}

TEST_CASE("plans whose ranks share sequences are priced by what was measured") {
  test::World world = transformer(2, 4, 8);
  for (Operator& op : world.model.operators) {
    op.tensor_all_reduces = op.cost_key == "head" ? 0 : 1;
    op.shape["sequence"] = 64;
    if (op.cost_key == "attention") op.kind = "attention";
  }
  Knobs knobs;
  knobs.tensor_parallel = knobs.sharded = knobs.sequence_parallel = knobs.context_parallel = true;
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, knobs, {});
  Knobs without = knobs;
  without.sequence_parallel = without.context_parallel = false;
  const std::vector<CostKey> fewer = needed_costs(world.model, world.cluster, without, {});
  CHECK(keys.size() > fewer.size());
  CHECK(std::ranges::none_of(fewer, [](const CostKey& key) { return is_sharing_name(key.sharding); }));
  for (const CostKey& key : keys) {
    const std::int64_t value =
        key.kind == CostKind::kProcessBytes ? 0 : 1000 + 500 * key.samples / key.tp + key.bytes / 100;
    world.costs.push_back(test::exact_cost(key, value));
  }
  CHECK(needed_costs(world.model, world.cluster, knobs, world.costs).empty());
  const NativeCostModel model(world.table());
  const auto operators = static_cast<std::int32_t>(world.model.operators.size());
  for (const auto& [cp, tp, parallel] :
       {std::tuple{1, 2, true}, {1, 4, true}, {2, 1, false}, {2, 2, false}, {2, 2, true}, {4, 1, false}}) {
    for (const std::int32_t devices : {2, 4}) {
      if (cp * tp > devices) continue;
      std::vector<std::int32_t> ends{operators};
      if (devices == 2) ends.insert(ends.begin(), 3);
      Plan plan = test::make_plan(world.model, 4, ends, std::vector<std::int32_t>(ends.size(), devices));
      for (Stage& stage : plan.stages) {
        Segment& segment = stage.segments[0];
        segment.cp = cp;
        segment.tp = tp;
        segment.dp = devices / (cp * tp);
        if (segment.dp > 1) segment.sharded = ShardedLevel::kParameters;
      }
      if (parallel) plan.target_knobs["sequence_parallel"] = "true";
      CAPTURE(cp, tp, parallel, devices);
      REQUIRE(validate(plan, world.model, world.cluster, knobs).empty());
      const Prediction prediction = model.evaluate(plan);
      CHECK(prediction.missing_costs.empty());
      CHECK(prediction.estimated_costs.empty());
    }
  }
  // And a search whose best plan shares sequences, since that is measured to be fast.
  for (Cost& cost : world.costs) {
    if (is_sharing_name(cost.key.sharding)) cost = test::exact_cost(cost.key, 10);
  }
  SearchOptions options;
  options.max_evaluations = 4000;
  options.strategy = "unified";
  const SearchOutcome outcome = search(NativeCostModel(world.table()), knobs, options).value();
  REQUIRE_FALSE(outcome.result.plans.empty());
  const RankedPlan& best = outcome.result.plans.front();
  CHECK(sharing_of(best.plan, best.plan.stages[0].segments[0]) != "");
  CHECK(best.prediction.estimated_costs.empty());
}

TEST_CASE("what ranks of several nodes exchange of a sequence is asked for too") {
  test::World world = transformer(2, 1, 8);
  world.cluster.nodes.push_back(world.cluster.nodes[0]);
  world.cluster.nodes[1].name = "other";
  for (Operator& op : world.model.operators) {
    op.shape["sequence"] = 64;
    if (op.cost_key == "attention") op.kind = "attention";
  }
  Knobs knobs;
  knobs.context_parallel = true;
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, knobs, {});
  for (const char* const primitive : {"all_gather", "reduce_scatter"}) {
    CHECK(std::ranges::any_of(keys, [&](const CostKey& key) {
      return key.subject == primitive && key.group_size == 2 && key.placement == "inter_node";
    }));
  }
  // No node's ranks can measure the operator.
  CHECK(std::ranges::none_of(keys, [](const CostKey& key) { return is_sharing_name(key.sharding); }));
}

TEST_CASE("memory switches need the host's link and optimizer, and replicas' whole layers") {
  test::World world = transformer(2, 2, 4);
  const auto layers = static_cast<std::int32_t>(world.model.operators.size());
  for (std::int32_t i = 0; i < layers; ++i) world.model.operators[i].layer = i < 2 ? 0 : 1;
  Knobs knobs;
  knobs.sharded = knobs.memory_switches = true;
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, knobs, {});
  for (const CostKey& key : keys) {
    world.costs.push_back(test::exact_cost(key, key.kind == CostKind::kProcessBytes ? 0 : 1000 + key.bytes / 100));
  }
  const CostTable table = world.table();
  const NativeCostModel model(table);
  Plan plan = test::make_plan(world.model, 2, {layers}, {2});
  Segment& segment = plan.stages[0].segments[0];
  const std::vector<Range> all{{0, layers}};
  segment.sharded = ShardedLevel::kGradients;
  segment.recompute = all;
  segment.switches.offload_optimizer = true;
  segment.switches.offload_hidden = segment.switches.partition_parameters = segment.switches.lazy_prefetch = all;
  REQUIRE(validate(plan, world.model, world.cluster, knobs).empty());
  const Prediction prediction = model.evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.estimated_costs.empty());
  CHECK(needed_costs(world.model, world.cluster, knobs, world.costs).empty());
}

TEST_CASE("what is known is not asked for again, however it was written down") {
  const test::World world = transformer(2, 2, 4);
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, Knobs{}, {});
  std::vector<Cost> known;
  for (CostKey key : keys) {
    if (key.kind == CostKind::kPointToPoint && known.empty()) continue;
    if (key.placement == "intra_node") key.placement.clear();  // the default
    known.push_back(test::exact_cost(key, 1));
  }
  CHECK(needed_costs(world.model, world.cluster, Knobs{}, known).empty());
  known.pop_back();
  CHECK(needed_costs(world.model, world.cluster, Knobs{}, known).size() == 1);
}

TEST_CASE("what training has shown once of one algorithm or kernel class does not stand in for a benchmark") {
  const test::World world = transformer(2, 2, 4);
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, Knobs{}, {});
  std::vector<Cost> seen;
  std::size_t links = 0;
  for (CostKey key : keys) {
    const bool overlap = key.kind == CostKind::kOverlapComputation || key.kind == CostKind::kOverlapCommunication;
    if (key.kind != CostKind::kCollective && !overlap) continue;
    ++links;
    key.algorithm = overlap ? "" : "ring";
    key.kernel_class = overlap ? "gemm" : "";
    seen.push_back(test::exact_cost(key, 1));
    seen.back().source = parse_cost_source("training ranks-clock");
  }
  REQUIRE(links > 2);
  CHECK(needed_costs(world.model, world.cluster, Knobs{}, seen) == keys);
}

TEST_CASE("knobs leave out what they rule out") {
  const test::World world = transformer(2, 2, 4);
  Knobs knobs;
  knobs.data_parallel = false;
  const std::vector<CostKey> no_replicas = needed_costs(world.model, world.cluster, knobs, {});
  CHECK(count(no_replicas, CostKind::kCollective) == 0);
  CHECK(count(no_replicas, CostKind::kOverlapComputation) == 0);
  knobs = {};
  knobs.pipeline = false;
  const std::vector<CostKey> one_stage = needed_costs(world.model, world.cluster, knobs, {});
  CHECK(count(one_stage, CostKind::kPointToPoint) == 0);
  // Both devices always share a microbatch: of 2 or 4 samples.
  CHECK(count(one_stage, CostKind::kOperatorForward) == 4 * 2);
}

TEST_CASE("sample counts are bracketed where there are many") {
  const test::World world = transformer(1, 2, 720);
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, Knobs{}, {});
  std::set<std::int32_t> samples;
  for (const CostKey& key : keys) {
    if (key.kind == CostKind::kOperatorForward) samples.insert(key.samples);
  }
  CHECK(samples.size() <= 8);
  CHECK(*samples.begin() == 1);
  CHECK(*samples.rbegin() == 720);
}

TEST_CASE("more samples than a device could hold are not measured") {
  test::World world = transformer(1, 1, 64);
  world.cluster.nodes[0].memory_bytes = 20000 * 10;
  for (const CostKey& key : needed_costs(world.model, world.cluster, Knobs{}, {})) CHECK(key.samples <= 8);
}

TEST_CASE("keys that one measurement fills are one item of the request") {
  const test::World world = transformer(2, 2, 4);
  const std::vector<CostKey> keys = needed_costs(world.model, world.cluster, Knobs{}, {});
  const std::string json = benchmark_requests_json(keys, world.model);
  // 4 kinds x 3 sample counts, 4 optimizers, 3 collectives, 5 transfers, 1 overlap, 1 process.
  CHECK(items(json) == 4 * 3 + 4 + 3 + 5 + 1 + 1);
  CHECK_THAT(json, Catch::Contains(R"("schema":"trimtab.benchmark_requests/1","relative_error":0.03)") &&
                       Catch::Contains(R"({"kind":"operator","cost_key":"attention","dtype":"float32","samples":2,)"
                                       R"("tp":1,"sharding":"default"})") &&
                       Catch::Contains(R"({"kind":"optimizer","cost_key":"head","dtype":"float32"})") &&
                       Catch::Contains(R"({"kind":"collective","primitive":"all_reduce","bytes":100000,)"
                                       R"("group_size":2})") &&
                       Catch::Contains(R"({"kind":"process"})"));
  // Beside the heaviest operator, at the most samples.
  CHECK_THAT(json, Catch::Contains(R"("group_size":2,"cost_key":"feedforward","dtype":"float32","samples":4})"));
  CHECK(benchmark_requests_json({}, world.model).find("\"items\":[]") != std::string::npos);
}

TEST_CASE("of GPUs the launch of each pass and update is needed, and its measurement is the pass's own") {
  const test::World world = transformer(2, 2, 4);
  Knobs knobs;
  knobs.memory_switches = true;  // updates on hosts, which nobody launches
  const auto needed = [&](const std::vector<Cost>& known, bool launches) {
    return needed_costs(world.model, world.cluster, knobs, known, launches);
  };
  const std::vector<CostKey> passes = needed({}, false);
  const std::vector<CostKey> all = needed({}, true);
  CHECK(std::ranges::none_of(passes, &CostKey::is_launch));
  CHECK(std::ranges::is_sorted(all));
  CHECK(std::ranges::count_if(all, &CostKey::is_launch) == 4 * 3 * 2 + 4);
  CHECK(benchmark_requests_json(all, world.model) == benchmark_requests_json(passes, world.model));
  // A database of a release that measured no launches: all that has one is measured again, and nothing else.
  std::vector<Cost> known;
  for (const CostKey& key : passes) known.push_back(test::exact_cost(key, 1));
  const std::vector<CostKey> launches = needed(known, true);
  CHECK(std::ranges::all_of(launches, &CostKey::is_launch));
  CHECK(launches.size() == 4 * 3 * 2 + 4);
  CHECK(items(benchmark_requests_json(launches, world.model)) == 4 * 3 + 4);
  for (CostKey key : launches) {
    key.protocol = "graph";  // in whatever way
    known.push_back(test::exact_cost(key, 1));
  }
  CHECK(needed(known, true).empty());
  // Where the model says how its program launches, no other way is enough.
  test::World compiled = world;
  compiled.model.launched_as = LaunchedAs::kCompiled;
  CHECK(needed_costs(compiled.model, world.cluster, knobs, known, true).size() == launches.size());
  compiled.model.launched_as = LaunchedAs::kGraph;
  CHECK(needed_costs(compiled.model, world.cluster, knobs, known, true).empty());
  known.back().source = parse_cost_source("estimated");
  CHECK(needed(known, true).size() == 1);
}

TEST_CASE("several nodes need their links at both levels") {
  test::World world = transformer(2, 2, 4);
  world.cluster.nodes.push_back({"n1", "", 2, 0, 0});
  std::set<std::string> placements;
  for (const CostKey& key : needed_costs(world.model, world.cluster, Knobs{}, {})) {
    if (key.kind == CostKind::kCollective && key.group_size == 4) placements.insert(key.placement);
    if (key.kind == CostKind::kCollective && key.group_size == 2) placements.insert("2 " + key.placement);
  }
  CHECK(placements == std::set<std::string>{"inter_node", "2 intra_node", "2 inter_node"});
}

}  // namespace
}  // namespace trimtab::tuner
