#include "papers/h3t/published_solvers.hpp"

#include <catch2/catch.hpp>

#include "enumeration.hpp"
#include "published_vectors.hpp"

namespace trimtab::tuner::h3t {

TEST_CASE("the published solvers answer as published", "[h3t]") {
  std::size_t index = 0;
  for (const test::EnumeratedCase& of : test::enumerated_cases()) {
    INFO("brute[" << index++ << "]");
    const Problem problem{of.layers, of.fabric, of.limit};
    // Where the published program finds nothing, its code answers with all switches on.
    const Solution all_on = solution_of(problem, Switching(of.layers.size(), kAllOn));
    const Solution program = solve_by_published_program(problem).value_or(all_on);
    CHECK(program.outcome.runtime == of.published_program);
    CHECK(program.outcome.peak == of.published_program_peak);
    const std::optional<Solution> greedy = solve_greedily(problem);
    REQUIRE(greedy.has_value());
    CHECK(greedy->outcome.runtime == of.published_greedy);
    CHECK(greedy->outcome.peak == of.published_greedy_peak);
  }
}

TEST_CASE("sampling answers with the best of its draws", "[h3t]") {
  std::int32_t faster = 0;
  for (const test::EnumeratedCase& of : test::enumerated_cases()) {
    const Problem problem{of.layers, of.fabric, of.limit};
    constexpr std::uint64_t kSeed = 7;
    std::optional<Solution> before;
    // The draws of more samples begin with those of fewer: one more draw is taken if it is faster, else left.
    for (std::int32_t samples = 1; samples <= 100; ++samples) {
      const std::optional<Solution> best = solve_by_sampling(problem, kSeed, samples);
      REQUIRE((best || !before));
      if (!best) continue;
      CHECK(problem.fits(best->outcome));
      CHECK(solution_of(problem, best->switches).outcome == best->outcome);
      CHECK(best->outcome.runtime >= of.optimum);
      if (before) CHECK(best->outcome.runtime <= before->outcome.runtime);
      if (before && best->outcome.runtime < before->outcome.runtime) ++faster;
      before = best;
    }
  }
  CHECK(faster > 0);
}

TEST_CASE("sampling one layer often enough finds the best of all 96 combinations", "[h3t]") {
  for (const test::EnumeratedCase& of : test::enumerated_cases()) {
    const Problem problem{std::span(of.layers).first(1), of.fabric, of.limit};
    const test::Enumerated all = test::enumerate(problem, all_combinations());
    const std::optional<Solution> best = solve_by_sampling(problem, 3, 3000);
    REQUIRE(best.has_value() == (all.feasible > 0));
    if (best) CHECK(best->outcome.runtime == all.best);
  }
}

}  // namespace trimtab::tuner::h3t
