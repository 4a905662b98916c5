// Plans whose step is a graph of its own: the interleaved schedule, transfers that meet.

#include <catch2/catch.hpp>
#include <cmath>

#include "../autopipe/event_simulation.hpp"
#include "../world.hpp"
#include "schema/timeline.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

test::World even_world(std::int32_t operators, std::int32_t devices, std::int64_t latency_ns) {
  test::OperatorTruth truth;
  truth.cost_key = "layer";
  truth.forward_ns = 1000000;
  truth.backward_ns = 2000000;
  truth.stored_bytes = 1000;
  truth.output_bytes = 10;
  truth.parameter_bytes = 500;
  test::World world = test::make_world(std::vector<test::OperatorTruth>(static_cast<std::size_t>(operators), truth),
                                       devices, 8, {1, 8});
  test::add_links(world, latency_ns, 0);
  return world;
}

// One operator a stage, round and round the devices.
Plan interleaved_plan(const test::World& world, std::int32_t seats) {
  const auto stages = static_cast<std::int32_t>(world.model.operators.size());
  std::vector<std::int32_t> ends;
  for (std::int32_t s = 1; s <= stages; ++s) ends.push_back(s);
  Plan plan = test::make_plan(world.model, 1, ends, std::vector<std::int32_t>(static_cast<std::size_t>(stages), 1));
  plan.schedule.kind = ScheduleKind::kInterleaved;
  for (std::int32_t s = 0; s < stages; ++s) plan.stages[static_cast<std::size_t>(s)].devices = {s % seats};
  return plan;
}

TEST_CASE("the interleaved schedule is priced: its bubble, what its devices hold, its picture") {
  const test::World world = even_world(8, 4, 0);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const Plan plan = interleaved_plan(world, 4);
  REQUIRE(validate(plan, world.model, world.cluster).empty());
  CHECK(model.unpriced(plan).empty());
  const Prediction prediction = model.evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  // 8 microbatches of 2 stages of 3 ms, and 3 fills of 3 ms.
  CHECK(prediction.iteration_ms == Approx(8 * 2 * 3 + 3 * 3));
  for (const StagePrediction& stage : prediction.stages) CHECK(stage.bubble_ms == Approx(3 * 3));
  // The first device's: 2 * 3 + 4 + 1 microbatches of both stages.
  const auto activations = [&](std::size_t s) { return prediction.stages[s].memory.activations; };
  CHECK(activations(0) + activations(4) == Approx(11 * 1000).margin(11 * 10));
  CHECK(prediction.stages[0].memory_bytes == prediction.stages[4].memory_bytes);
  CHECK(prediction.stages[0].memory_bytes >=
        activations(0) + activations(4) + prediction.stages[0].memory.states + prediction.stages[4].memory.states);
  const std::vector<TimelineEvent> events = model.timeline(plan);
  double busy = 0;
  for (const TimelineEvent& event : events) {
    const bool pass = event.kind == TimelineKind::kForward || event.kind == TimelineKind::kBackward;
    if (pass && event.stage % 4 == 0) busy += event.end_ms - event.begin_ms;
  }
  CHECK(busy == Approx(8 * 2 * 3));
  const StepPath path = model.step_path(plan);
  double on_path = 0;
  for (const TimelineEvent& event : path.actions) on_path += event.end_ms - event.begin_ms;
  CHECK(on_path == Approx(prediction.iteration_ms));
}

TEST_CASE("devices of an interleaved plan that hold too much are named with all they hold") {
  test::World world = even_world(8, 4, 0);
  world.cluster.nodes[0].memory_bytes = 12000;
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(interleaved_plan(world, 4));
  CHECK_FALSE(prediction.feasible);
  CHECK_THAT(prediction.infeasible_reason, Catch::Contains("with its devices' other stages"));
}

TEST_CASE("an interleaved plan goes round the same groups of devices") {
  const test::World world = even_world(8, 4, 0);
  const auto only = [&](const Plan& plan) {
    const std::vector<std::string> broken = validate(plan, world.model, world.cluster);
    REQUIRE(broken.size() == 1);
    return broken.front();
  };
  Plan plan = interleaved_plan(world, 4);
  plan.microbatch = 4;
  CHECK_THAT(only(plan), Catch::Contains("a multiple of its 4 groups of devices") && Catch::Contains("found 2"));
  plan = interleaved_plan(world, 4);
  std::swap(plan.stages[5].devices, plan.stages[6].devices);
  CHECK(validate(plan, world.model, world.cluster).size() == 2);
  const test::World few = even_world(4, 4, 0);
  CHECK_THAT(validate(interleaved_plan(few, 4), few.model, few.cluster).front(),
             Catch::Contains("two stages or more on each group"));
}

TEST_CASE("what the interleaved schedule is not priced with is named") {
  const test::World world = even_world(8, 4, 0);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  Plan plan = interleaved_plan(world, 4);
  plan.target_knobs["transfers_meet"] = "true";
  CHECK_THAT(model.unpriced(plan).at(0), Catch::Contains("target_knobs.transfers_meet"));
  CHECK_FALSE(model.evaluate(plan).missing_costs.empty());
}

TEST_CASE("what a target does otherwise and is not priced is named") {
  const test::World world = even_world(2, 2, 0);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  Plan plan = test::make_plan(world.model, 1, {1, 2}, {1, 1});
  plan.target_knobs = {{"sequence_parallel", "false"}, {"virtual_stages", "1"}, {"precision", "\"bf16\""}};
  CHECK(model.unpriced(plan).empty());
  plan.target_knobs = {{"virtual_stages", "2"}, {"execution", "\"graphs\""}};
  CHECK(model.unpriced(plan).size() == 2);
}

TEST_CASE("sender and receiver that meet are both held up") {
  const test::World world = even_world(2, 2, 1000000);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  Plan plan = test::make_plan(world.model, 1, {1, 2}, {1, 1});
  test::StepInput step;
  step.forward = {1, 1};
  step.backward = {2, 2};
  step.transfer = {1};
  step.microbatches = 8;
  step.blocking = false;
  const double alone = model.evaluate(plan).iteration_ms;
  CHECK(alone == Approx(test::EventSimulation(step).run()));
  plan.target_knobs["transfers_meet"] = "true";
  REQUIRE(validate(plan, world.model, world.cluster).empty());
  CHECK(model.unpriced(plan).empty());
  step.blocking = true;
  const Prediction met = model.evaluate(plan);
  CHECK(met.iteration_ms == Approx(test::EventSimulation(step).run()));
  CHECK(met.iteration_ms > alone);
  const StepPath path = model.step_path(plan);
  CHECK(path.master_stage >= 0);
  bool drawn = false;
  for (const TimelineEvent& event : model.timeline(plan)) {
    if (event.kind != TimelineKind::kTransfer) continue;
    drawn = true;
    CHECK(event.end_ms - event.begin_ms == Approx(1));
  }
  CHECK(drawn);
  plan.schedule.transfers = Transfers::kEager;
  CHECK(validate(plan, world.model, world.cluster).size() == 1);
  plan.target_knobs["transfers_meet"] = "1";
  CHECK_THAT(validate(plan, world.model, world.cluster).at(0), Catch::Contains("must be false or true"));
}

}  // namespace
}  // namespace trimtab::tuner
