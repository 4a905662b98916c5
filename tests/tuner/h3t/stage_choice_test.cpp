#include "solvers/h3t/stage_choice.hpp"

#include <catch2/catch.hpp>

#include "analytic_layers.hpp"
#include "enumeration.hpp"
#include "solvers/h3t/exact_solver.hpp"

namespace trimtab::tuner::h3t {

TEST_CASE("a stage's choice is within its gap of the best of all switches", "[h3t]") {
  const std::uint64_t seed = 5005;
  Random random(seed);
  StageSwitches quick(0.05);
  StageSwitches exact(0);
  for (std::int32_t round = 0; round < 120; ++round) {
    INFO("seed " << seed << " round " << round);
    const std::int32_t count = round % 8 == 0 ? 3 : static_cast<std::int32_t>(random.between(1, 2));
    const std::vector<LayerProfile> layers = test::random_layers(random, count, random.below(3) == 0);
    const Problem problem = test::random_problem(random, layers);
    const test::Enumerated all = test::enumerate(problem, synchronized_combinations());
    for (StageSwitches* const switches : {&quick, &exact}) {
      const StageChoice& choice = switches->choose(problem);
      CHECK(choice.feasible == (all.feasible > 0));
      CHECK(solution_of(problem, choice.best.switches).outcome == choice.best.outcome);
      if (!choice.feasible) {
        CHECK((choice.best.outcome.peak == all.least_peak || all.least_peak == kUnlimited));
        continue;
      }
      CHECK(problem.fits(choice.best.outcome));
      CHECK(choice.bound <= all.best);
      CHECK(choice.best.outcome.runtime >= all.best);
      CHECK(choice.gap() <= (switches == &quick ? 0.05 : 0.0));
    }
  }
}

// What a trainer has of them differs from trainer to trainer.
TEST_CASE("a stage's choice among some of the switches is within its gap of the best of these", "[h3t]") {
  const std::uint64_t seed = 5013;
  Random random(seed);
  StageSwitches exact(0);
  int limited = 0;  // choices that more switches would have made faster, or possible
  for (std::int32_t round = 0; round < 120; ++round) {
    INFO("seed " << seed << " round " << round);
    const std::vector<LayerProfile> layers =
        test::random_layers(random, static_cast<std::int32_t>(random.between(1, 2)), random.below(3) == 0);
    Problem problem = test::random_problem(random, layers);
    const StageChoice free = exact.choose(problem);
    AllowedSwitches& allowed = problem.allowed;
    allowed = {synchronized_combinations()[random.below(kSynchronizedCombinations)], random.below(2) == 0};
    // All that is on at once is a choice itself.
    allowed.lazy_prefetch = allowed.lazy_prefetch && (allowed.partition_parameters || !allowed.lazy_needs_partition);
    Switching some;
    for (const LayerSwitches& of : synchronized_combinations()) {
      if (is_within(of, allowed)) some.push_back(of);
    }
    const test::Enumerated all = test::enumerate(problem, some);
    const StageChoice& choice = exact.choose(problem);
    for (const LayerSwitches& of : choice.best.switches) CHECK(is_within(of, allowed));
    CHECK(choice.feasible == (all.feasible > 0));
    if (choice.feasible) CHECK(choice.best.outcome.runtime == all.best);
    limited += free.feasible && (!choice.feasible || all.best > free.best.outcome.runtime) ? 1 : 0;
  }
  CHECK(limited >= 10);
}

TEST_CASE("a choice of switches counts what it has looked at, and nothing where it is remembered", "[h3t]") {
  const std::uint64_t seed = 5009;
  Random random(seed);
  INFO("seed " << seed);
  const std::vector<LayerProfile> layers = test::random_layers(random, 3, false);
  Problem problem{layers, Fabric::kNvlink};
  problem.device_limit = solution_of(problem, Switching(layers.size(), kAllOn)).outcome.peak;
  StageSwitches switches;
  CHECK(switches.evaluations() == 0);
  static_cast<void>(switches.choose(problem));
  // Three layers between neighbours that were new, and a path at least.
  const std::uint64_t first = switches.evaluations();
  CHECK(first > 3 * kSynchronizedCombinations);
  static_cast<void>(switches.choose(problem));
  CHECK(switches.evaluations() == first);
  problem.device_limit += problem.device_limit / 4;
  static_cast<void>(switches.choose(problem));
  // The layers are known.
  CHECK(switches.evaluations() - first < 3 * kSynchronizedCombinations + kSynchronizedCombinations);
  problem.in_flight = 2;
  const std::uint64_t before = switches.evaluations();
  static_cast<void>(switches.choose(problem));
  CHECK(switches.evaluations() > before);
}

// Without the exact solver: `stop` ends it before it has begun.
TEST_CASE("curves of long stages hold for every limit, whatever was asked before", "[h3t]") {
  const std::uint64_t seed = 5006;
  Random random(seed);
  StageSwitches asked_often(1);
  for (std::int32_t round = 0; round < 8; ++round) {
    INFO("seed " << seed << " round " << round);
    const test::Machine& machine = test::machines()[random.below(2)];
    const double spread = round % 2 == 0 ? 0 : 0.2;
    const LayerProfile layer = test::analytic_layer(machine, test::sizes()[random.below(3)], 16);
    const std::vector<LayerProfile> layers = test::spread_layers(layer, 24, spread, random);
    Problem problem{layers, machine.fabric};
    problem.microbatches = 8;
    problem.in_flight = static_cast<std::int32_t>(random.between(1, 4));
    const Bytes low = solution_of(problem, Switching(layers.size(), kAllOn)).outcome.peak;
    const Bytes high = solution_of(problem, Switching(layers.size(), LayerSwitches{})).outcome.peak;
    Ticks bound_before = std::numeric_limits<Ticks>::max();
    for (const double share : {0.02, 0.1, 0.3, 0.5, 0.8, 1.1}) {
      INFO("share " << share);
      problem.device_limit = low + static_cast<Bytes>(share * static_cast<double>(high - low));
      const StageChoice& choice = asked_often.choose(problem);
      StageSwitches asked_once(1);
      const StageChoice& alone = asked_once.choose(problem);
      REQUIRE(choice.feasible);
      CHECK(problem.fits(choice.best.outcome));
      CHECK(alone.best.outcome == choice.best.outcome);
      CHECK(alone.bound == choice.bound);
      CHECK(choice.gap() < 0.05);
      CHECK(choice.bound <= bound_before);
      const ExactAnswer answer = solve_exactly(problem);
      REQUIRE(answer.proven);
      CHECK(choice.bound <= answer.bound);
      CHECK(choice.best.outcome.runtime >= answer.best.outcome.runtime);
      bound_before = choice.bound;
      CHECK(&asked_often.choose(problem) == &choice);
    }
  }
}

}  // namespace trimtab::tuner::h3t
