#include "native/stage/recompute_choice.hpp"

#include <catch2/catch.hpp>

#include "world.hpp"

namespace trimtab::tuner {
namespace {

struct Best {
  double time = 1e300;
  double excess = 1e300;
};

// A stage of one replica on one rank.
class OneRank {
 public:
  OneRank(const CostTable& table, Range operators, std::int32_t samples, std::int32_t in_flight)
      : table_(table), catalog_(table_.tables()) {
    StageShape shape;
    shape.operators = operators;
    shape.in_flight = in_flight;
    shape.segments.push_back({operators, {}});
    shape.segments[0].split.samples = samples;
    resolve(table_.tables(), shape, catalog_, inputs);
  }
  [[nodiscard]] RecomputeFlags none() const {
    return RecomputeFlags(static_cast<std::size_t>(table_.tables().operators()), 0);
  }

 private:
  CostTable table_;
  SplitCatalog catalog_;

 public:
  StageInputs inputs;
};

// Every subset of the stage's operators.
Best brute_force(const StageInputs& inputs, RecomputeFlags flags, double limit) {
  Best best;
  const Range inside = inputs.operators;
  for (std::uint32_t subset = 0; subset < (1U << inside.size()); ++subset) {
    for (std::int32_t i = 0; i < inside.size(); ++i) flags[inside.begin + i] = (subset >> i) & 1U;
    const double excess = std::max(0.0, stage_bytes(inputs, flags).total() - limit);
    best.excess = std::min(best.excess, excess);
    if (excess <= 0) best.time = std::min(best.time, stage_times({}, inputs, flags).recompute);
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
    const auto begin = static_cast<std::int32_t>(random.below(2));
    const auto end = static_cast<std::int32_t>(world.model.operators.size());
    const OneRank stage(world.table(), {begin, end}, 2, static_cast<std::int32_t>(random.between(1, 3)));
    RecomputeFlags flags = stage.none();
    const double limit = stage_bytes(stage.inputs, flags).total() * (0.3 + 0.8 * random.uniform());
    const RecomputeChoice choice = choose_recompute({}, stage.inputs, limit, true, 0, flags);
    const Best best = brute_force(stage.inputs, stage.none(), limit);
    INFO("case " << i);
    REQUIRE(choice.fits == (best.excess <= 0));
    if (choice.fits) {
      ++fitted;
      set_flags(choice.recompute, stage.inputs.operators, flags);
      REQUIRE(stage_times({}, stage.inputs, flags).recompute == Approx(best.time).margin(1e-9));
    } else {
      REQUIRE(choice.excess_bytes == Approx(best.excess));
    }
  }
  CHECK(fitted > 100);
  CHECK(fitted < 390);
}

TEST_CASE("the chosen recompute is the cheapest that fits where layers are recomputed at once, on random stages") {
  const std::uint64_t seed = 32;
  INFO("seed " << seed);
  Random random(seed);
  int fitted = 0;
  int together = 0;  // several operators in one run
  for (int i = 0; i < 400; ++i) {
    test::World world = test::random_world(random, {9, 1, 3});
    test::join_layers(random, 4, world.model);
    const auto begin = static_cast<std::int32_t>(random.below(2));
    const auto end = static_cast<std::int32_t>(world.model.operators.size() - random.below(2));
    const OneRank stage(world.table(), {begin, end}, 2, static_cast<std::int32_t>(random.between(1, 3)));
    RecomputeFlags flags = stage.none();
    const double limit = stage_bytes(stage.inputs, flags).total() * (0.3 + 0.8 * random.uniform());
    const RecomputeChoice choice = choose_recompute({}, stage.inputs, limit, true, 0, flags);
    const Best best = brute_force(stage.inputs, stage.none(), limit);
    INFO("case " << i);
    REQUIRE(choice.fits == (best.excess <= 0));
    if (!choice.fits) {
      REQUIRE(choice.excess_bytes == Approx(best.excess));
      continue;
    }
    ++fitted;
    set_flags(choice.recompute, stage.inputs.operators, flags);
    REQUIRE(stage_times({}, stage.inputs, flags).recompute == Approx(best.time).margin(1e-9));
    REQUIRE(choice.least_ms <= best.time * (1 + 1e-9));
    for (const Range& range : choice.recompute) together += range.size() > 1 ? 1 : 0;
  }
  CHECK(fitted > 100);
  CHECK(fitted < 390);
  CHECK(together > 50);
}

TEST_CASE("no choice that fits recomputes for less than is said, where a layer has more ways than are looked at") {
  const std::uint64_t seed = 33;
  INFO("seed " << seed);
  Random random(seed);
  int left_out = 0;
  for (int i = 0; i < 12; ++i) {
    test::World world = test::random_world(random, {12, 1, 12});
    test::join_layers(random, 1, world.model);
    for (Operator& op : world.model.operators) op.layer = 0;
    const OneRank stage(world.table(), {0, 12}, 2, 2);
    left_out += recompute_patterns(stage.inputs, 0, 12).complete ? 0 : 1;
    for (const double share : {0.5, 0.7, 0.9}) {
      RecomputeFlags flags = stage.none();
      const double limit = stage_bytes(stage.inputs, flags).total() * share;
      const RecomputeChoice choice = choose_recompute({}, stage.inputs, limit, true, 0, flags);
      const Best best = brute_force(stage.inputs, stage.none(), limit);
      INFO("case " << i << ", share " << share);
      if (!choice.fits) continue;
      set_flags(choice.recompute, stage.inputs.operators, flags);
      REQUIRE(stage_bytes(stage.inputs, flags).total() <= limit + 0.5);
      REQUIRE(choice.least_ms <= best.time * (1 + 1e-9));
      CHECK(stage_times({}, stage.inputs, flags).recompute <= 1.5 * best.time);
    }
  }
  CHECK(left_out > 0);
}

TEST_CASE("units of equal prices are looked at once") {
  std::vector<test::OperatorTruth> operators(6);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    operators[i] = {.cost_key = i % 2 == 0 ? "a" : "b", .output_bytes = 100};
    operators[i].stored_bytes = 1000;
  }
  test::World world = test::make_world(operators, 1, 1, {1});
  for (std::size_t i = 0; i < operators.size(); ++i) world.model.operators[i].layer = static_cast<std::int32_t>(i / 2);
  const OneRank stage(world.table(), {0, 6}, 1, 1);
  KnownPatterns known;
  CHECK(&known.of(stage.inputs, 0, 2) == &known.of(stage.inputs, 2, 4));
  // The last one sends its output.
  CHECK(&known.of(stage.inputs, 0, 2) != &known.of(stage.inputs, 4, 6));
}

TEST_CASE("a job without the recompute knob recomputes nothing") {
  Random random(3);
  const test::World world = test::random_world(random, {6, 1, 4});
  const OneRank stage(world.table(), {0, static_cast<std::int32_t>(world.model.operators.size())}, 1, 1);
  RecomputeFlags flags = stage.none();
  const RecomputeChoice choice = choose_recompute({}, stage.inputs, 1, false, 0, flags);
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
  const OneRank stage(world.table(), {0, 300}, 1, 1);
  RecomputeFlags flags = stage.none();
  const double all = stage_bytes(stage.inputs, flags).total();
  const RecomputeChoice choice = choose_recompute({}, stage.inputs, all / 2, true, 0, flags);
  REQUIRE(choice.fits);
  set_flags(choice.recompute, stage.inputs.operators, flags);
  const double time = stage_times({}, stage.inputs, flags).recompute;
  const double forward = stage_times({}, stage.inputs, stage.none()).forward;
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
