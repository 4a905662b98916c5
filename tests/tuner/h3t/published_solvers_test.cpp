#include "strategies/h3t/published_solvers.hpp"

#include <catch2/catch.hpp>

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

}  // namespace trimtab::tuner::h3t
