// Bounds beside two sub-batches, which hide all-reduces behind whatever computes between them.

#include <catch2/catch.hpp>

#include "plan/plan_space.hpp"
#include "pricing/bounds.hpp"
#include "pricing/evaluator.hpp"
#include "split_world.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/search.hpp"

namespace trimtab::tuner {
namespace {

using test::World;

constexpr std::int64_t kMs = 1000000;
constexpr std::int32_t kPairs = 4;

// Of a sample on both devices; nothing was measured on one alone.
void measure(const std::string& key, std::int64_t forward_ms, std::int64_t backward_ms, World& world) {
  for (const std::int32_t samples : {1, 2}) {
    const auto put = [&](CostKind kind, std::int64_t value) {
      CostKey of = test::operator_key(kind, key, samples);
      of.tp = 2;
      world.costs.push_back(test::exact_cost(of, value));
    };
    put(CostKind::kOperatorForward, forward_ms * kMs * samples);
    put(CostKind::kOperatorBackward, backward_ms * kMs * samples);
    put(CostKind::kOperatorStoredBytes, 10);
    put(CostKind::kOperatorWorkingBytes, 0);
  }
}

// Pairs of one that computes for 10 ms a sample and one that computes for 1 ms and reduces for 10.
World pairs() {
  std::vector<test::OperatorTruth> operators;
  for (std::int32_t i = 0; i < 2 * kPairs; ++i) {
    test::OperatorTruth of;
    of.cost_key = i % 2 == 0 ? "computes" : "reduces";
    of.output_bytes = 1000;
    operators.push_back(of);
  }
  World world = test::make_world(operators, 2, 2, {});
  test::add_links(world, 0, 10 * kMs);
  for (std::int32_t i = 0; i < 2 * kPairs; ++i) world.model.operators[i].tensor_all_reduces = i % 2;
  measure("computes", 10, 10, world);
  measure("reduces", 11, 11, world);
  return world;
}

Plan sub_batches_of(const World& world) {
  Plan plan = test::make_plan(world.model, 2, {2 * kPairs}, {2});
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].tp = 2;
  plan.schedule.sub_batches = 2;
  plan.schedule.cross_pass = true;
  return plan;
}

TEST_CASE("an operator that reduces longer than it computes is hidden behind the one in front of it") {
  const World world = pairs();
  const NativeCostModel model(world.table());
  const Prediction prediction = model.evaluate(sub_batches_of(world));
  REQUIRE(prediction.missing_costs.empty());
  // In either pass two halves of 11 ms in each pair, all-reduces beside them, and the last one in the open.
  CHECK(prediction.iteration_ms == Approx(2 * (kPairs * 2 * 11 + 10)));
  Knobs knobs;
  knobs.tensor_parallel = knobs.sub_batches = true;
  const PlanSpace space = plan_space(world.model, world.cluster, knobs, 0);
  const double bound = model.evaluator(space)->bounds()->lower_bound_ms({});
  CHECK(bound <= prediction.iteration_ms);
  CHECK(bound >= 2 * kPairs * 2 * 11 * (1 - 1e-9));
}

TEST_CASE("halves that go backwards in less than half of the time are counted as such") {
  World world = pairs();
  for (Cost& cost : world.costs) {
    const bool whole = cost.key.kind == CostKind::kOperatorBackward && cost.key.samples == 2;
    if (whole) cost = test::exact_cost(cost.key, 3 * static_cast<std::int64_t>(cost.statistics.mean()));
  }
  const NativeCostModel model(world.table());
  const Prediction prediction = model.evaluate(sub_batches_of(world));
  REQUIRE(prediction.missing_costs.empty());
  Knobs knobs;
  knobs.tensor_parallel = knobs.sub_batches = true;
  knobs.microbatch = false;
  const PlanSpace space = plan_space(world.model, world.cluster, knobs, 2);
  CHECK(model.evaluator(space)->bounds()->lower_bound_ms({}) <= prediction.iteration_ms * (1 + 1e-9));
}

TEST_CASE("where all-reduces take longer than computing the bound is no less than half of both") {
  World world = pairs();
  for (Operator& op : world.model.operators) op.tensor_all_reduces = 1;
  for (Cost& cost : world.costs) {
    // All of what two ranks take is reducing.
    const bool reduces = cost.key.kind == CostKind::kCollective;
    if (reduces) cost = test::exact_cost(cost.key, 11 * kMs * cost.key.bytes / 1000);
  }
  const NativeCostModel model(world.table());
  const Prediction prediction = model.evaluate(sub_batches_of(world));
  REQUIRE(prediction.missing_costs.empty());
  Knobs knobs;
  knobs.tensor_parallel = knobs.sub_batches = knobs.sharded = true;
  PlanSpace space = plan_space(world.model, world.cluster, knobs, 0);
  space.mixed_splits = true;
  const double bound = model.evaluator(space)->bounds()->lower_bound_ms({});
  CHECK(bound <= prediction.iteration_ms * (1 + 1e-9));
  CHECK(bound >= 0.45 * prediction.iteration_ms);
}

// Operators whose times are not linear in samples, on links of any speed.
TEST_CASE("no plan takes less than the bound, whatever its operators and links take") {
  constexpr std::uint64_t kSeed = 20261122;
  Random random(kSeed);
  int cases = 0, sub_batched = 0;
  for (int i = 0; i < 60; ++i) {
    World world = test::random_split_world(random, {4, 4, 2});
    const bool curved = i % 2 == 0;
    const double links = 0.1 + 2 * random.uniform();
    for (Cost& cost : world.costs) {
      const bool time = cost.key.kind == CostKind::kOperatorForward || cost.key.kind == CostKind::kOperatorBackward;
      const double factor = cost.key.kind == CostKind::kCollective ? links
                            : time && curved                       ? 0.5 + random.uniform()
                                                                   : 1;
      cost = test::exact_cost(cost.key, static_cast<std::int64_t>(cost.statistics.mean() * factor));
    }
    Calibration calibration;
    calibration.communication.value = 0.4 + random.uniform();
    for (Factor& factor : calibration.classes) factor.value = 0.5 + random.uniform();
    const NativeCostModel model(world.table(true), calibration);
    SearchOptions options;
    options.remedies = false;
    options.strategy = "exhaustive";
    options.space = "all";
    options.max_evaluations = 20000;
    const SearchResult result = search(model, Knobs{}, options).value().result;
    if (result.plans.empty()) continue;
    const PlanSpace space = named_space("all", world.model, world.cluster, Knobs{}, 0).value();
    INFO("seed " << kSeed << ", case " << i);
    const RankedPlan& best = result.plans.front();
    REQUIRE(model.evaluator(space)->bounds()->lower_bound_ms({}) <= best.prediction.iteration_ms * (1 + 1e-9));
    ++cases;
    sub_batched += best.plan.schedule.sub_batches > 1 ? 1 : 0;
  }
  CHECK(cases > 40);
  CHECK(sub_batched > 3);
}

}  // namespace
}  // namespace trimtab::tuner
