#include "recompute_choice.hpp"

#include <catch2/catch.hpp>

#include "world.hpp"

namespace trimtab::tuner {
namespace {

struct Best {
  double time = 1e300;
  double excess = 1e300;
};

// Every subset of the stage's operators.
Best brute_force(const CostTable::Tables& tables, const StageShape& shape, double limit) {
  Best best;
  RecomputeFlags flags(static_cast<std::size_t>(tables.operators()), 0);
  for (std::uint32_t subset = 0; subset < (1U << shape.operators.size()); ++subset) {
    for (std::int32_t i = 0; i < shape.operators.size(); ++i) flags[shape.operators.begin + i] = (subset >> i) & 1U;
    const double excess = std::max(0.0, stage_bytes(tables, {}, shape, flags).total() - limit);
    best.excess = std::min(best.excess, excess);
    if (excess <= 0) best.time = std::min(best.time, stage_times(tables, {}, shape, flags).recompute);
  }
  return best;
}

TEST_CASE("the chosen recompute is the cheapest that fits, on random stages") {
  const std::uint64_t seed = 31;
  INFO("seed " << seed);
  Random random(seed);
  int fitted = 0;
  for (int i = 0; i < 400; ++i) {
    const test::World world = test::random_world(random, {9, 1, 3});
    const CostTable table = world.table();
    const CostTable::Tables& tables = table.tables();
    StageShape shape;
    shape.operators = {static_cast<std::int32_t>(random.below(2)), tables.operators()};
    shape.samples = 2;
    shape.in_flight = static_cast<std::int32_t>(random.between(1, 3));
    RecomputeFlags none(static_cast<std::size_t>(tables.operators()), 0);
    const double limit = stage_bytes(tables, {}, shape, none).total() * (0.3 + 0.8 * random.uniform());
    const RecomputeChoice choice = choose_recompute(tables, {}, shape, limit, true);
    const Best best = brute_force(tables, shape, limit);
    INFO("case " << i);
    REQUIRE(choice.fits == (best.excess <= 0));
    if (choice.fits) {
      ++fitted;
      RecomputeFlags flags(none);
      set_flags(choice.recompute, shape.operators, flags);
      REQUIRE(stage_times(tables, {}, shape, flags).recompute == Approx(best.time).margin(1e-9));
    } else {
      REQUIRE(choice.excess_bytes == Approx(best.excess));
    }
  }
  CHECK(fitted > 100);
  CHECK(fitted < 390);
}

TEST_CASE("a job without the recompute knob recomputes nothing") {
  Random random(3);
  const test::World world = test::random_world(random, {6, 1, 4});
  const CostTable table = world.table();
  StageShape shape;
  shape.operators = {0, table.tables().operators()};
  const RecomputeChoice choice = choose_recompute(table.tables(), {}, shape, 1, false);
  CHECK(choice.recompute.empty());
  CHECK_FALSE(choice.fits);
}

TEST_CASE("a stage of hundreds of unlike operators is still chosen quickly and fits") {
  std::vector<test::OperatorTruth> operators;
  Random random(8);
  for (int i = 0; i < 300; ++i) {
    test::OperatorTruth of;
    of.cost_key = "op" + std::to_string(i);
    of.forward_ns = random.between(1000, 100000);
    of.stored_bytes = random.between(1000, 100000);
    operators.push_back(of);
  }
  const test::World world = test::make_world(operators, 1, 1, {1});
  const CostTable table = world.table();
  StageShape shape;
  shape.operators = {0, 300};
  const RecomputeFlags none(300, 0);
  const double all = stage_bytes(table.tables(), {}, shape, none).total();
  const RecomputeChoice choice = choose_recompute(table.tables(), {}, shape, all / 2, true);
  REQUIRE(choice.fits);
  RecomputeFlags flags(none);
  set_flags(choice.recompute, shape.operators, flags);
  const double time = stage_times(table.tables(), {}, shape, flags).recompute;
  const double forward = stage_times(table.tables(), {}, shape, none).forward;
  // Half of the bytes are freed by well under half of the time, since the cheap ones go first.
  CHECK(time < 0.3 * forward);
}

TEST_CASE("ranges and flags are two forms of the same set") {
  RecomputeFlags flags(6, 0);
  set_flags({{1, 3}, {4, 5}}, {0, 6}, flags);
  CHECK(flags == RecomputeFlags{0, 1, 1, 0, 1, 0});
  CHECK(ranges_of(flags, {0, 6}) == std::vector<Range>{{1, 3}, {4, 5}});
  CHECK(ranges_of(flags, {2, 5}) == std::vector<Range>{{2, 3}, {4, 5}});
}

}  // namespace
}  // namespace trimtab::tuner
