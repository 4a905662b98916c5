#include <catch2/catch.hpp>
#include <cmath>

#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

// No prior doubt about factors: only the costs' own spread is left.
Calibration certain() {
  Calibration calibration;
  calibration.computation.log_sigma = 0;
  calibration.communication.log_sigma = 0;
  for (Factor& factor : calibration.classes) factor.log_sigma = 0;
  calibration.overlap.log_sigma = calibration.bubble.log_sigma = 0;
  calibration.residual_sigma = 0;
  return calibration;
}

test::OperatorTruth truth() {
  test::OperatorTruth of;
  of.cost_key = "op";
  return of;
}

// Replaces a cost by values of the same mean with this standard error.
void spread(test::World& world, CostKind kind, std::int64_t standard_error) {
  for (Cost& cost : world.costs) {
    if (cost.key.kind != kind) continue;
    const std::int64_t mean = cost.statistics.max();
    cost.statistics = {};
    cost.statistics.add(mean - standard_error);
    cost.statistics.add(mean + standard_error);
  }
}

TEST_CASE("exact costs and a certain calibration leave no doubt") {
  const test::World world = test::make_world({truth(), truth()}, 1, 4, {1});
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table, certain()).evaluate(test::make_plan(world.model, 1, {2}, {1}));
  CHECK(prediction.interval_low_ms == Approx(prediction.iteration_ms));
  CHECK(prediction.interval_high_ms == Approx(prediction.iteration_ms));
}

TEST_CASE("an error in one cost counts wherever that cost is used") {
  test::World world = test::make_world({truth(), truth()}, 1, 4, {1});
  spread(world, CostKind::kOperatorForward, 10000);  // 0.01 ms; two values: its standard error too
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table, certain()).evaluate(test::make_plan(world.model, 1, {2}, {1}));
  // Eight forwards of one cost: the errors add up, they do not cancel.
  CHECK(prediction.interval_high_ms - prediction.iteration_ms == Approx(1.96 * 8 * 0.01));
}

TEST_CASE("errors of different costs cancel in part") {
  test::World world = test::make_world({truth(), truth()}, 1, 4, {1});
  spread(world, CostKind::kOperatorForward, 10000);
  spread(world, CostKind::kOperatorBackward, 10000);
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table, certain()).evaluate(test::make_plan(world.model, 1, {2}, {1}));
  CHECK(prediction.interval_high_ms - prediction.iteration_ms == Approx(1.96 * 8 * 0.01 * std::sqrt(2.0)));
}

TEST_CASE("only costs on the critical path widen the interval") {
  test::OperatorTruth light = truth();
  light.cost_key = "light";
  light.forward_ns = 1000;
  light.backward_ns = 1000;
  test::World world = test::make_world({truth(), light}, 2, 8, {1});
  for (Cost& cost : world.costs) {
    if (cost.key.subject != "light" || cost.key.kind != CostKind::kOperatorForward) continue;
    cost.statistics = {};
    cost.statistics.add(0);
    cost.statistics.add(2000);  // as uncertain as it is long, 0.001 ms
  }
  const CostTable table = world.table();
  const Prediction prediction =
      NativeCostModel(table, certain()).evaluate(test::make_plan(world.model, 1, {1, 2}, {1, 1}));
  // At most the one forward that the fill or drain waits for.
  CHECK(prediction.interval_high_ms - prediction.iteration_ms <= 1.96 * 0.001 * 1.01);
}

TEST_CASE("doubt about calibration widens the interval by its terms' shares") {
  const test::World world = test::make_world({truth()}, 1, 4, {1});
  const CostTable table = world.table();
  Calibration calibration = certain();
  calibration.computation.log_sigma = 0.1;
  calibration.fixed_sigma_ms = 2;
  const Plan plan = test::make_plan(world.model, 1, {1}, {1});
  const Prediction prediction = NativeCostModel(table, calibration).evaluate(plan);
  CHECK(prediction.interval_high_ms - prediction.iteration_ms == Approx(1.96 * std::hypot(0.1 * 12, 2.0)));
  calibration.correlations = {0, -1, 0};  // what one takes the other gives
  const Prediction tied = NativeCostModel(table, calibration).evaluate(plan);
  CHECK(tied.interval_high_ms - tied.iteration_ms == Approx(1.96 * (2.0 - 1.2)));
}

}  // namespace
}  // namespace trimtab::tuner
