// What must hold of every proven best plan, whatever the world.

#include <catch2/catch.hpp>

#include "split_world.hpp"
#include "tuner/search.hpp"
#include "usual_worlds.hpp"

namespace trimtab::tuner {
namespace {

double best_ms(const test::World& world, bool idle_devices = false) {
  const NativeCostModel model(world.table());
  SearchOptions options;
  options.remedies = false;
  options.strategy = "exhaustive";
  options.idle_devices = idle_devices;
  const SearchOutcome outcome = search(model, Knobs{}, options).value();
  if (outcome.result.plans.empty()) return 0;
  REQUIRE(outcome.result.proven);
  return outcome.result.plans[0].prediction.iteration_ms;
}

bool is_link(const Cost& cost) {
  return cost.key.kind == CostKind::kPointToPoint || cost.key.kind == CostKind::kCollective;
}

// Costs that `applies` holds of, times a factor.
template <typename Applies>
test::World scaled(test::World world, std::int64_t numerator, std::int64_t denominator, Applies applies) {
  for (Cost& cost : world.costs) {
    if (!applies(cost)) continue;
    const auto value = static_cast<std::int64_t>(cost.statistics.mean());
    cost = test::exact_cost(cost.key, value * numerator / denominator);
  }
  return world;
}

// No best plan before means nothing to keep.
void check_no_slower(double before, double after) {
  if (before > 0) REQUIRE(after > 0);
  if (before > 0) REQUIRE(after <= before * (1 + 1e-12));
}

TEST_CASE("more memory never makes the best plan slower, nor makes it not fit") {
  Random random(601);
  for (int i = 0; i < test::usual_few(200); ++i) {
    test::World world = test::random_world(random, {6, 3, 2});
    if (world.cluster.nodes[0].memory_bytes == 0) continue;
    const double before = best_ms(world);
    world.cluster.nodes[0].memory_bytes = world.cluster.nodes[0].memory_bytes * 11 / 10;
    INFO("seed 601, case " << i);
    check_no_slower(before, best_ms(world));
  }
}

TEST_CASE("faster links never make the best plan slower") {
  Random random(602);
  for (int i = 0; i < test::usual_few(200); ++i) {
    const test::World world = test::random_world(random, {6, 3, 2});
    INFO("seed 602, case " << i);
    check_no_slower(best_ms(world), best_ms(scaled(world, 1, 2, is_link)));
  }
}

TEST_CASE("one more device that may be idle never makes the best plan slower") {
  Random random(603);
  int better = 0;
  for (int i = 0; i < test::usual_few(200); ++i) {
    test::World world = test::random_world(random, {6, 4, 2});
    if (world.cluster.nodes[0].devices < 2) continue;
    test::World smaller = world;
    --smaller.cluster.nodes[0].devices;
    const double before = best_ms(smaller, true);
    const double after = best_ms(world, true);
    INFO("seed 603, case " << i);
    check_no_slower(before, after);
    if (after < before) ++better;
  }
  CHECK(better > test::usual_few(20));
}

TEST_CASE("all times doubled double the best time") {
  Random random(604);
  for (int i = 0; i < test::usual_few(200); ++i) {
    const test::World world = test::random_world(random, {6, 3, 2});
    const auto is_time = [](const Cost& cost) {
      return is_link(cost) || cost.key.kind == CostKind::kOperatorForward ||
             cost.key.kind == CostKind::kOperatorBackward || cost.key.kind == CostKind::kOptimizerStep;
    };
    INFO("seed 604, case " << i);
    REQUIRE(best_ms(scaled(world, 2, 1, is_time)) == Approx(2 * best_ms(world)).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace trimtab::tuner
