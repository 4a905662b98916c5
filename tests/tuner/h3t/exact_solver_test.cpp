#include "solvers/h3t/exact_solver.hpp"

#include <catch2/catch.hpp>

#include "../usual_worlds.hpp"
#include "enumeration.hpp"
#include "papers/h3t/published_solvers.hpp"
#include "published_vectors.hpp"
#include "random_layers.hpp"
#include "solvers/h3t/relaxation.hpp"
#include "solvers/h3t/step_program.hpp"

namespace trimtab::tuner::h3t {
namespace {

using test::enumerate;
using test::Enumerated;
using test::random_layers;
using test::random_problem;

void check_answer(const Problem& problem, const ExactAnswer& answer, const Enumerated& all) {
  CHECK(answer.feasible == (all.feasible > 0));
  CHECK(solution_of(problem, answer.best.switches).outcome == answer.best.outcome);
  if (!answer.feasible) {
    CHECK(answer.best.outcome.peak == all.least_peak);
    return;
  }
  CHECK(answer.proven);
  CHECK(problem.fits(answer.best.outcome));
  CHECK(answer.best.outcome.runtime == all.best);
  CHECK(answer.bound == all.best);
  for (const ExactPass& pass : answer.passes) {
    CHECK(pass.bound <= all.best);
    CHECK(pass.best >= all.best);
  }
}

}  // namespace

TEST_CASE("a synchronized step is the sum of its segments", "[h3t]") {
  const std::uint64_t seed = 20231;
  Random random(seed);
  for (std::int32_t round = 0; round < 2000; ++round) {
    INFO("seed " << seed << " round " << round);
    const auto count = static_cast<std::int32_t>(random.between(1, 7));
    const std::vector<LayerProfile> layers = random_layers(random, count, random.below(3) == 0);
    Problem problem{layers, random.below(2) == 0 ? Fabric::kNvlink : Fabric::kPcie};
    problem.host_limit = 0;  // so that hidden bytes are counted
    problem.microbatches = static_cast<std::int32_t>(random.between(1, 3));
    problem.in_flight = static_cast<std::int32_t>(random.between(1, problem.microbatches));
    const StepProgram program(problem);
    std::int32_t state = static_cast<std::int32_t>(random.below(2));
    Label label = label_of(program.starts()[state]);
    Switching switches;
    for (std::int32_t i = 0; i < count; ++i) {
      const std::vector<Transition>& choices = program.of(i)[state];
      REQUIRE(!choices.empty());
      const Transition& by = choices[random.below(choices.size())];
      switches.push_back(switches_of(by.code));
      CHECK(switches.back().lazy_prefetch == (state % 2 == 1));
      label = extended(program, i, label, by);
      state = by.next;
    }
    const StepOutcome outcome = solution_of(problem, switches).outcome;
    CHECK(whole_ticks(program, label) == outcome.runtime);
    CHECK(label.peak == outcome.peak);
    CHECK(label.hidden + host_bytes(layers, Switching(layers.size())) == outcome.host);
  }
}

TEST_CASE("the exact solver equals enumeration of the published cases", "[h3t]") {
  for (const test::EnumeratedCase& of : test::enumerated_cases()) {
    const Problem problem{of.layers, of.fabric, of.limit};
    const Enumerated all = enumerate(problem, synchronized_combinations());
    CHECK(all.best == of.optimum_synchronized);
    CHECK(all.feasible == of.feasible_synchronized);
    check_answer(problem, solve_exactly(problem), all);
  }
}

TEST_CASE("all 96 combinations enumerated are what was published, and no solver beats them", "[h3t]") {
  const auto& cases = test::enumerated_cases();
  for (std::size_t i = 0; i < cases.size(); i += tuner::test::all_worlds() ? 1 : 4) {
    const test::EnumeratedCase& of = cases[i];
    const Problem problem{of.layers, of.fabric, of.limit};
    const Enumerated all = enumerate(problem, all_combinations());
    CHECK(all.best == of.optimum);
    CHECK(all.feasible == of.feasible);
    const ExactAnswer synchronized = solve_exactly(problem);
    REQUIRE(synchronized.feasible == (of.feasible_synchronized > 0));
    if (!synchronized.feasible) continue;
    const Solution free = freed(problem, synchronized.best, {});
    CHECK(problem.fits(free.outcome));
    CHECK(free.outcome.runtime >= all.best);
    CHECK(free.outcome.runtime <= synchronized.best.outcome.runtime);
  }
}

TEST_CASE("the exact solver equals enumeration of random layers", "[h3t]") {
  const std::uint64_t seed = 4711;
  Random random(seed);
  std::int32_t below_all_on = 0;  // something fits though all switches on do not
  for (std::int32_t round = 0; round < 160; ++round) {
    INFO("seed " << seed << " round " << round);
    const std::int32_t count = round % 8 == 0 ? 3 : static_cast<std::int32_t>(random.between(1, 2));
    const std::vector<LayerProfile> layers = random_layers(random, count, random.below(3) == 0);
    const Problem problem = random_problem(random, layers);
    const Enumerated all = enumerate(problem, synchronized_combinations());
    check_answer(problem, solve_exactly(problem), all);
    const Solution all_on = solution_of(problem, Switching(layers.size(), kAllOn));
    if (all.feasible > 0 && !problem.fits(all_on.outcome)) ++below_all_on;
  }
  CHECK(below_all_on > 0);
}

TEST_CASE("the exact solver equals enumeration of four layers", "[.][h3t][long]") {
  const std::uint64_t seed = 99;
  Random random(seed);
  for (std::int32_t round = 0; round < 12; ++round) {
    INFO("seed " << seed << " round " << round);
    const std::vector<LayerProfile> layers = random_layers(random, 4, round % 3 == 0);
    const Problem problem = random_problem(random, layers);
    check_answer(problem, solve_exactly(problem), enumerate(problem, synchronized_combinations()));
  }
}

TEST_CASE("the exact solver reproduces the best known answers of twelve layers", "[h3t]") {
  for (const test::LongerCase& of : test::longer_cases()) {
    const Problem problem{of.layers, of.fabric, of.limit};
    const StepOutcome published = solution_of(problem, of.switches).outcome;
    CHECK(published.runtime == of.best);
    CHECK(published.peak == of.peak);
    const ExactAnswer answer = solve_exactly(problem);
    CHECK(answer.proven);
    if (of.exact) {
      CHECK(answer.best.outcome.runtime == of.best);
    } else {
      CHECK(answer.best.outcome.runtime <= of.best);
    }
    std::string text;
    for (const ExactPass& pass : answer.passes) {
      text += " [" + std::to_string(pass.width) + ": " + std::to_string(pass.labels) + " labels, " +
              std::to_string(pass.best) + " >= " + std::to_string(pass.bound) + "]";
    }
    UNSCOPED_INFO(text);
  }
}

}  // namespace trimtab::tuner::h3t
