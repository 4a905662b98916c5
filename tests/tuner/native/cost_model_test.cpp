#include "tuner/cost_model.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

using test::exact_cost;
using test::link_key;
using test::make_plan;
using test::make_world;
using test::OperatorTruth;
using test::World;

OperatorTruth truth(const std::string& key, std::int64_t forward_ms, std::int64_t backward_ms) {
  OperatorTruth of;
  of.cost_key = key;
  of.forward_ns = forward_ms * 1000000;
  of.backward_ns = backward_ms * 1000000;
  return of;
}

TEST_CASE("one stage on one device takes its computing, optimizer and overhead") {
  OperatorTruth a = truth("a", 1, 2);
  a.parameter_bytes = 10;
  a.optimizer_ns = 5000000;
  World world = make_world({a, truth("b", 3, 4)}, 1, 4, {1, 2, 4});
  CostKey overhead;
  overhead.kind = CostKind::kStepOverhead;
  overhead.subject = "step";
  world.costs.push_back(exact_cost(overhead, 7000000));
  const CostTable table = world.table();
  const NativeCostModel model(table);
  // Two microbatches of two samples: 2 * 2 * (1 + 2 + 3 + 4) + 5 + 7.
  const Prediction prediction = model.evaluate(make_plan(world.model, 2, {2}, {1}));
  CHECK(prediction.iteration_ms == Approx(2 * 2 * 10 + 5 + 7));
  CHECK(prediction.stages[0].forward_ms == Approx(8));
  CHECK(prediction.stages[0].backward_ms == Approx(12));
  CHECK(prediction.stages[0].optimizer_ms == Approx(5));
  CHECK(prediction.stages[0].bubble_ms == Approx(0).margin(1e-9));
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.bottleneck.resource == "computation");
  CHECK(prediction.computation_share_ms == Approx(45));
  CHECK(prediction.communication_share_ms == Approx(0).margin(1e-9));
}

TEST_CASE("recomputed operators run their forward again in the backward pass") {
  World world = make_world({truth("a", 1, 2), truth("b", 3, 4)}, 1, 4, {1, 2, 4});
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {2}, {1}, {{{1, 2}}}));
  CHECK(prediction.stages[0].recompute_ms == Approx(3));
  CHECK(prediction.iteration_ms == Approx(4 * (1 + 3 + 2 + 4 + 3)));
}

TEST_CASE("two stages wait for transfers exactly where the schedule needs them") {
  OperatorTruth a = truth("a", 1, 2);
  a.output_bytes = 1000000;
  World world = make_world({a, truth("b", 1, 2)}, 2, 1, {1});
  add_links(world, 4000000, 1000);  // 4 ms + 1 us for each kilobyte: 5 ms for 1 MB
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {1, 2}, {1, 1}));
  CHECK(prediction.iteration_ms == Approx(1 + 5 + 1 + 2 + 5 + 2));
  CHECK(prediction.communication_share_ms == Approx(10));
  CHECK(prediction.stages[1].exposed_communication_ms == Approx(5));
  CHECK(prediction.stages[0].exposed_communication_ms == Approx(5));
  // Stage 0 idles while stage 1 computes; stage 1 idles before its input is sent and after its last gradient is.
  CHECK(prediction.stages[0].bubble_ms == Approx(16 - 3 - 5));
  CHECK(prediction.stages[1].bubble_ms == Approx(16 - 3 - 5));
}

TEST_CASE("a rank's transfers to several peers add up") {
  OperatorTruth a = truth("a", 1, 2);
  a.output_bytes = 1000;
  World world = make_world({a, truth("b", 1, 2)}, 3, 4, {1, 2, 4});
  add_links(world, 1000000, 0);  // 1 ms a message, whatever its size
  const CostTable table = world.table();
  // One sender, two receivers: two messages one after the other.
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 4, {1, 2}, {1, 2}));
  CHECK(prediction.iteration_ms == Approx(4 * 1 + 2 + 2 * 1 + 2 * 2 + 2 + 4 * 2));
}

TEST_CASE("gradient synchronization overlaps the rest of the backward pass") {
  OperatorTruth a = truth("a", 1, 6);
  a.parameter_bytes = 1000;
  World world = make_world({a, a}, 2, 2, {1, 2});
  add_links(world, 4000000, 0);  // an all-reduce takes 4 ms
  const CostTable table = world.table();
  // Operator 1's all-reduce (4 ms) hides under operator 0's backward (6 ms); operator 0's own is exposed.
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 2, {2}, {2}));
  CHECK(prediction.iteration_ms == Approx(2 + 12 + 4));
  CHECK(prediction.stages[0].gradient_sync_ms == Approx(4));
  CHECK(prediction.communication_share_ms == Approx(4).epsilon(1e-4));
  REQUIRE(prediction.estimated_costs.size() == 1);
  CHECK_THAT(prediction.estimated_costs[0], Catch::Contains("overlap") && Catch::Contains("no slowdown assumed"));
}

TEST_CASE("computation and communication slow each other by the measured factors") {
  OperatorTruth a = truth("a", 1, 6);
  a.parameter_bytes = 1000;
  World world = make_world({a, a}, 2, 2, {1, 2});
  add_links(world, 4000000, 0);
  world.costs.push_back(exact_cost(link_key(CostKind::kOverlapComputation, 1000, 2), 1500000));
  world.costs.push_back(exact_cost(link_key(CostKind::kOverlapCommunication, 1000, 2), 1250000));
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 2, {2}, {2}));
  // c = 6, k = 4, alpha = 1.5, beta = 1.25: c * alpha = 9 > k * beta = 5, so 5 + (6 - 5 / 1.5) beside each other.
  CHECK(prediction.iteration_ms == Approx(2 + 6 + (5 + (6 - 5 / 1.5)) + 4));
  CHECK(prediction.estimated_costs.empty());
}

TEST_CASE("a step's terms add up to it on every stage, on random worlds") {
  const std::uint64_t seed = 5;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    const World world = test::random_world(random, {8, 4, 4});
    const std::int32_t devices = world.cluster.devices();
    const auto operators = static_cast<std::int32_t>(world.model.operators.size());
    std::vector<std::int32_t> ends;
    for (std::int32_t s = 1; s < devices; ++s) ends.push_back(s);
    ends.push_back(operators);
    const CostTable table = world.table();
    const Plan plan = make_plan(world.model, 2, ends, std::vector<std::int32_t>(ends.size(), 1), {{{0, 1}}});
    const Prediction prediction = NativeCostModel(table).evaluate(plan);
    for (const StagePrediction& stage : prediction.stages) {
      const double sum = plan.microbatches() * (stage.forward_ms + stage.backward_ms + stage.recompute_ms +
                                                stage.exposed_communication_ms) +
                         stage.gradient_sync_ms + stage.optimizer_ms + stage.bubble_ms;
      REQUIRE(sum == Approx(prediction.iteration_ms).epsilon(1e-9));
    }
    REQUIRE(prediction.computation_share_ms + prediction.communication_share_ms ==
            Approx(prediction.iteration_ms).epsilon(1e-9));
  }
}

TEST_CASE("scaling every cost scales the step") {
  Random random(11);
  for (int i = 0; i < 50; ++i) {
    World world = test::random_world(random, {6, 4, 2});
    const Plan plan = usual_guess(world.model, world.cluster, Knobs{});
    if (!validate(plan, world.model, world.cluster).empty()) continue;
    const CostTable table = world.table();
    const double before = NativeCostModel(table).evaluate(plan).iteration_ms;
    for (Cost& cost : world.costs) {
      if (unit_of(cost.key.kind) != "ns") continue;
      cost = exact_cost(cost.key, 3 * cost.statistics.max());
    }
    const CostTable tripled = world.table();
    REQUIRE(NativeCostModel(tripled).evaluate(plan).iteration_ms == Approx(3 * before));
  }
}

TEST_CASE("calibration multiplies terms, not totals") {
  OperatorTruth a = truth("a", 1, 2);
  a.output_bytes = 1000000;
  World world = make_world({a, truth("b", 1, 2)}, 2, 1, {1});
  add_links(world, 4000000, 1000);
  const CostTable table = world.table();
  Calibration calibration;
  calibration.computation.value = 2;
  calibration.communication.value = 3;
  calibration.fixed_ms = 1.5;
  const Prediction prediction = NativeCostModel(table, calibration).evaluate(make_plan(world.model, 1, {1, 2}, {1, 1}));
  CHECK(prediction.iteration_ms == Approx(2 * 6 + 3 * 10 + 1.5));
}

TEST_CASE("the shares are the step's derivatives by the factors") {
  Random random(21);
  for (int i = 0; i < 200; ++i) {
    World world = test::random_world(random, {8, 4, 4});
    if (world.cluster.devices() < 2) continue;
    const auto operators = static_cast<std::int32_t>(world.model.operators.size());
    const Plan plan = make_plan(world.model, 4, {2, operators}, {1, world.cluster.devices() == 3 ? 2 : 1});
    if (world.cluster.devices() == 4) continue;
    const CostTable table = world.table();
    const Prediction prediction = NativeCostModel(table).evaluate(plan);
    Calibration slower;
    slower.communication.value = 1 + 1e-5;
    const double slope = (NativeCostModel(table, slower).evaluate(plan).iteration_ms - prediction.iteration_ms) / 1e-5;
    REQUIRE(slope == Approx(prediction.communication_share_ms).epsilon(1e-3).margin(1e-3));
  }
}

TEST_CASE("a missing cost is named with the benchmark that fills it") {
  World world = make_world({truth("a", 1, 2), truth("b", 1, 2)}, 2, 4, {1, 4});
  const CostTable table = world.table();
  const NativeCostModel model(table);
  // 2 samples lie between measured points; transfers were never measured.
  const Prediction prediction = model.evaluate(make_plan(world.model, 2, {1, 2}, {1, 1}));
  CHECK(prediction.missing_costs.empty());  // nothing to transfer: output_bytes is 0
  world.model.operators[0].output_bytes = 8;
  const CostTable with_output = world.table();
  const Prediction incomplete = NativeCostModel(with_output).evaluate(make_plan(world.model, 2, {1, 2}, {1, 1}));
  REQUIRE(incomplete.missing_costs.size() == 1);
  CHECK_THAT(incomplete.missing_costs[0], Catch::Contains("point_to_point send_recv bytes=16 intra_node") &&
                                              Catch::Contains("benchmark: point_to_point of 16 bytes"));
}

TEST_CASE("what the native model does not price is said to be missing") {
  World world = make_world({truth("a", 1, 2)}, 2, 4, {1, 2, 4});
  const CostTable table = world.table();
  Plan plan = make_plan(world.model, 4, {1}, {2});
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].cp = 2;
  plan.schedule.sub_batches = 4;
  plan.target_knobs["virtual_stages"] = "2";
  const NativeCostModel model(table);
  const std::vector<std::string> unpriced = model.unpriced(plan);
  REQUIRE(unpriced.size() == 3);
  CHECK_THAT(unpriced[0], Catch::Contains("target_knobs.virtual_stages: a stage in several parts"));
  CHECK_THAT(unpriced[1], Catch::Contains("schedule.sub_batches: a sub-batch beside context parallelism"));
  CHECK_THAT(unpriced[2], Catch::Contains("schedule.sub_batches: a microbatch in more than two sub-batches"));
  const std::vector<std::string> missing = model.evaluate(plan).missing_costs;
  for (const std::string& name : unpriced) CHECK(std::count(missing.begin(), missing.end(), name) == 1);
  CHECK(model.unpriced(make_plan(world.model, 4, {1}, {2})).empty());
  Plan offloaded = make_plan(world.model, 4, {1}, {2});
  Segment& all = offloaded.stages[0].segments[0];
  all.switches.offload_optimizer = true;
  all.sharded = ShardedLevel::kOptimizer;
  REQUIRE(model.unpriced(offloaded).size() == 1);
  CHECK_THAT(model.unpriced(offloaded)[0], Catch::Contains("switches.offload_optimizer: an optimizer on the host"));
  CHECK_FALSE(model.evaluate(offloaded).missing_costs.empty());
  all.sharded = ShardedLevel::kGradients;
  CHECK(model.unpriced(offloaded).empty());
}

TEST_CASE("the timeline shows every action of the step in order") {
  OperatorTruth a = truth("a", 1, 2);
  a.output_bytes = 1000;
  a.parameter_bytes = 10;
  a.optimizer_ns = 1000000;
  World world = make_world({a, a}, 2, 3, {1});
  add_links(world, 500000, 0);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const Plan plan = make_plan(world.model, 1, {1, 2}, {1, 1}, {{}, {{1, 2}}});
  const std::vector<TimelineEvent> events = model.timeline(plan);
  const auto count = [&events](EventKind kind) {
    return std::count_if(events.begin(), events.end(), [kind](const TimelineEvent& e) { return e.kind == kind; });
  };
  CHECK(count(EventKind::kForward) == 6);
  CHECK(count(EventKind::kBackward) == 6);
  CHECK(count(EventKind::kRecompute) == 3);
  CHECK(count(EventKind::kTransfer) == 6);
  CHECK(count(EventKind::kOptimizer) == 2);
  CHECK(std::is_sorted(events.begin(), events.end(), [](const TimelineEvent& x, const TimelineEvent& y) {
    return std::pair(x.stage, x.begin_ms) < std::pair(y.stage, y.begin_ms);
  }));
  double end = 0;
  for (const TimelineEvent& event : events) end = std::max(end, event.end_ms);
  CHECK(end == Approx(model.evaluate(plan).iteration_ms));
}

TEST_CASE("a stage computes as slowly as the slowest of its devices, and a plan that gives that less is found") {
  World world = make_world({truth("a", 1, 2), truth("a", 1, 2), truth("a", 1, 2), truth("a", 1, 2)}, 2, 4, {1, 2, 4});
  test::add_links(world, 1000, 1);
  const Plan even = make_plan(world.model, 1, {2, 4}, {1, 1});
  const Plan uneven = make_plan(world.model, 1, {3, 4}, {1, 1});
  const NativeCostModel healthy(world.table());
  CHECK(healthy.evaluate(even).iteration_ms < healthy.evaluate(uneven).iteration_ms);
  world.cluster.nodes[0].speeds = {1, 0.25};
  const NativeCostModel slowed(world.table());
  const Prediction of_even = slowed.evaluate(even);
  CHECK(of_even.stages[0].forward_ms == Approx(healthy.evaluate(even).stages[0].forward_ms));
  CHECK(of_even.stages[1].forward_ms == Approx(4 * healthy.evaluate(even).stages[1].forward_ms));
  CHECK(of_even.stages[1].backward_ms == Approx(4 * healthy.evaluate(even).stages[1].backward_ms));
  CHECK(slowed.evaluate(uneven).iteration_ms < of_even.iteration_ms);
  const SearchOutcome outcome = search(slowed, Knobs{}, {}).value();
  REQUIRE_FALSE(outcome.result.plans.empty());
  CHECK(outcome.result.plans.front().prediction.iteration_ms <= slowed.evaluate(uneven).iteration_ms);
  const auto& stages = outcome.result.plans.front().plan.stages;
  const bool less = stages.size() == 1 ? stages.front().devices == std::vector<std::int32_t>{0}
                                       : stages[1].operators().size() < stages[0].operators().size();
  CHECK(less);
  // Faster than the costs say: as the costs say.
  world.cluster.nodes[0].speeds = {4, 1};
  CHECK(NativeCostModel(world.table()).evaluate(even).iteration_ms == Approx(healthy.evaluate(even).iteration_ms));
}

}  // namespace
}  // namespace trimtab::tuner
