// Plans with sliced microbatches: how they are priced, refused and searched.

#include <catch2/catch.hpp>
#include <cmath>

#include "../brute_force.hpp"
#include "../world.hpp"
#include "plan/candidate.hpp"
#include "pricing/evaluator.hpp"
#include "schema/timeline.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

// Operators that take `fixed_ns` whatever the samples: halves cost more than half.
test::World even_world(std::int32_t stages, std::int64_t fixed_ns) {
  test::OperatorTruth truth;
  truth.cost_key = "layer";
  truth.forward_ns = 50000000;
  truth.forward_fixed_ns = fixed_ns;
  truth.backward_ns = 100000000;
  test::World world = test::make_world(std::vector<test::OperatorTruth>(static_cast<std::size_t>(stages), truth),
                                       stages, 16, {1, 2, 4, 8, 16});
  test::add_links(world, 0, 0);
  return world;
}

Plan even_plan(const test::World& world, std::int32_t sliced) {
  const auto stages = static_cast<std::int32_t>(world.model.operators.size());
  std::vector<std::int32_t> ends;
  for (std::int32_t s = 1; s <= stages; ++s) ends.push_back(s);
  Plan plan = test::make_plan(world.model, 2, ends, std::vector<std::int32_t>(static_cast<std::size_t>(stages), 1));
  plan.schedule.sliced_microbatches = sliced;
  return plan;
}

TEST_CASE("halves of a microbatch cost what was measured at half the samples") {
  const test::World world = even_world(4, 0);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  CHECK(model.unpriced(even_plan(world, 1)).empty());
  CHECK(model.evaluate(even_plan(world, 0)).iteration_ms == Approx(3300));
  CHECK(model.evaluate(even_plan(world, 1)).iteration_ms == Approx(3150));
  const test::World slow = even_world(4, 100000000);
  const CostTable slow_table = slow.table();
  const NativeCostModel slow_model(slow_table);
  // A half takes 150 of the whole's 200: slicing saves what the fixed part leaves of it.
  CHECK(slow_model.evaluate(even_plan(slow, 0)).iteration_ms == Approx(11 * 400));
  CHECK(slow_model.evaluate(even_plan(slow, 1)).iteration_ms > 11 * 400 - 150);
}

TEST_CASE("a half that nobody has measured is named") {
  test::World world = even_world(2, 0);
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.samples == 1; });
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(even_plan(world, 1));
  REQUIRE_FALSE(prediction.missing_costs.empty());
  CHECK_THAT(prediction.missing_costs[0], Catch::Contains("layer") && Catch::Contains("with 1 samples"));
  CHECK(NativeCostModel(table).evaluate(even_plan(world, 0)).missing_costs.empty());
}

TEST_CASE("a stage's milliseconds and its timeline agree with a sliced step") {
  const test::World world = even_world(4, 3000000);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const Plan plan = even_plan(world, 2);
  const Prediction prediction = model.evaluate(plan);
  for (const StagePrediction& stage : prediction.stages) {
    const double each = stage.forward_ms + stage.backward_ms + stage.recompute_ms + stage.exposed_communication_ms;
    CHECK(8 * each + stage.bubble_ms == Approx(prediction.iteration_ms));
  }
  double end = 0;
  int forwards = 0;
  for (const TimelineEvent& event : model.timeline(plan)) {
    end = std::max(end, event.end_ms);
    forwards += event.kind == EventKind::kForward && event.stage == 0 ? 1 : 0;
  }
  CHECK(end == Approx(prediction.iteration_ms));
  CHECK(forwards == 8 + 2);
}

TEST_CASE("plans that cannot be sliced are refused, each by its reason") {
  const test::World world = even_world(3, 0);
  Plan plan = even_plan(world, 2);
  CHECK(validate(plan, world.model, world.cluster).empty());
  plan.schedule.sliced_microbatches = 3;
  std::vector<std::string> broken = validate(plan, world.model, world.cluster);
  REQUIRE(broken.size() == 1);
  CHECK_THAT(broken[0], Catch::Contains("must be at most 2"));
  plan.schedule = {ScheduleKind::kGPipe, Transfers::kBlocking, 1};
  broken = validate(plan, world.model, world.cluster);
  REQUIRE(broken.size() == 1);
  CHECK_THAT(broken[0], Catch::Contains("needs the 1f1b schedule"));
  plan.schedule = {ScheduleKind::k1F1B, Transfers::kBlocking, 1};
  plan.microbatch = 1;
  broken = validate(plan, world.model, world.cluster);
  REQUIRE(broken.size() == 3);
  CHECK_THAT(broken[2], Catch::Contains("an even number of samples per replica") &&
                            Catch::Contains("found 1 in stages[2].segments[0]"));
  plan.microbatch = 2;
  CHECK_THAT(validate(plan, world.model, world.cluster, Knobs{}).at(0),
             Catch::Contains("the job does not honour knobs.sliced_microbatches"));
  Knobs knobs;
  knobs.sliced_microbatches = true;
  CHECK(validate(plan, world.model, world.cluster, knobs).empty());
}

TEST_CASE("the evaluator slices as is fastest, and its price is its plan's") {
  const std::uint64_t seed = 20260312;
  INFO("seed " << seed);
  Random random(seed);
  int sliced = 0;
  for (int i = 0; i < 300; ++i) {
    const test::World world = test::random_world(random, {8, 6, 4});
    const CostTable table = world.table(true);
    const NativeCostModel model(table);
    Knobs knobs;
    knobs.sliced_microbatches = true;
    const PlanSpace space = plan_space(world.model, world.cluster, knobs, 1);
    const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
    Candidate candidate;
    candidate.microbatch = space.microbatches[random.below(space.microbatches.size())];
    const auto stages = static_cast<std::int32_t>(random.between(1, space.stages_max));
    const std::vector<std::int32_t> devices = space.even_split(world.model, candidate.microbatch, stages);
    if (devices.empty()) continue;
    std::vector<std::int32_t> ends = even_cuts(world.model, stages);
    ends.push_back(space.operators);
    for (std::int32_t s = 0; s < stages; ++s) candidate.stages.push_back(replicated_stage(ends[s], devices[s]));
    const Score score = evaluator->price(candidate);
    Plan plan = evaluator->plan(candidate);
    INFO("case " << i << ": " << stages << " stages, " << plan.schedule.sliced_microbatches << " sliced");
    REQUIRE(validate(plan, world.model, world.cluster, knobs).empty());
    REQUIRE(score.priced);
    CHECK(score.ms == Approx(model.evaluate(plan).iteration_ms).epsilon(1e-12));
    // Like its recompute, what a plan slices follows from its shape.
    CHECK_FALSE(candidate_of(plan, space)->sliced_microbatches);
    sliced += plan.schedule.sliced_microbatches > 0 ? 1 : 0;
    const std::int32_t most = most_sliced(candidate, world.model);
    for (std::int32_t k = 0; k <= most; ++k) {
      plan.schedule.sliced_microbatches = k;
      CHECK(model.evaluate(plan).iteration_ms >= score.ms * (1 - 1e-12));
      candidate.sliced_microbatches = k;
      CHECK(evaluator->price(candidate).ms == Approx(model.evaluate(plan).iteration_ms).epsilon(1e-12));
    }
  }
  CHECK(sliced > 30);
}

TEST_CASE("unified and exhaustive find the best sliced plan that brute force finds") {
  const std::uint64_t seed = 20260313;
  INFO("seed " << seed);
  Random random(seed);
  int sliced = 0;
  for (int i = 0; i < 40; ++i) {
    const test::World world = test::random_world(random, {6, 4, 4});
    const CostTable table = world.table();
    const NativeCostModel model(table);
    Knobs knobs;
    knobs.sliced_microbatches = true;
    knobs.data_parallel = i % 2 == 0;
    test::BruteForceSpace space = test::brute_force_space(world, "job");
    space.sliced = true;
    if (!knobs.data_parallel) space.stage_devices = {1};
    const test::BruteForceResult best = test::brute_force(world, space);
    INFO("world " << i << ", " << best.plans << " plans, best " << best.ms);
    for (const char* const strategy : {"exhaustive", "unified"}) {
      INFO(strategy);
      SearchOptions options;
      options.remedies = false;
      options.strategy = strategy;
      const auto found = search(model, knobs, options);
      REQUIRE(found.ok());
      if (!best.plan) {
        CHECK(found->result.plans.empty());
        continue;
      }
      REQUIRE_FALSE(found->result.plans.empty());
      CHECK(found->result.plans[0].prediction.iteration_ms == Approx(best.ms).epsilon(1e-9));
      CHECK(found->result.lower_bound_ms <= best.ms * (1 + 1e-9));
      sliced += found->result.plans[0].plan.schedule.sliced_microbatches > 0 ? 1 : 0;
    }
  }
  CHECK(sliced > 0);
}

}  // namespace
}  // namespace trimtab::tuner
