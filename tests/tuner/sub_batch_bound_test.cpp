// Bounds beside two sub-batches, which hide all-reduces behind whatever computes between them.

#include <catch2/catch.hpp>

#include "evaluator.hpp"
#include "plan_space.hpp"
#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

using test::World;

constexpr std::int64_t kMs = 1000000;
constexpr std::int32_t kPairs = 4;

// Of a sample on both devices; on one alone an operator takes ten times as long.
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
    of.forward_ns = of.backward_ns = 100 * kMs;
    of.output_bytes = 1000;
    operators.push_back(of);
  }
  World world = test::make_world(operators, 2, 2, {1, 2});
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
  const double bound = model.evaluator(space)->lower_bound_ms({});
  CHECK(bound <= prediction.iteration_ms);
  CHECK(bound >= 2 * kPairs * 2 * 11 * (1 - 1e-9));
}

}  // namespace
}  // namespace trimtab::tuner
