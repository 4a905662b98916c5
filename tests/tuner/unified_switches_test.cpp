// Memory switches in one search with everything else, against the exhaustive strategy, which sets every combination of
// every layer.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "schema/plan.hpp"
#include "split_world.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

SearchResult run(const NativeCostModel& model, const char* strategy, std::vector<std::string> without) {
  SearchOptions options;
  options.strategy = strategy;
  options.space = "all";
  options.without = std::move(without);
  return search(model, Knobs{}, options).value().result;
}

bool switches(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return stage.segments.front().switches != Switches{}; });
}

// Memory that what fits without switches hardly has.
test::World tight_world(Random& random) {
  test::World world = test::random_split_world(random, {2, 2, 1});
  test::add_host_copies(random, world);
  const std::int64_t percent = random.between(20, 100);
  for (Node& node : world.cluster.nodes) node.memory_bytes = node.memory_bytes * percent / 100;
  return world;
}

TEST_CASE("unified finds the exhaustive optimum with memory switches") {
  const std::uint64_t seed = 913;
  Random random(seed);
  int cases = 0, exact = 0, switched = 0;
  double largest = 0;
  for (int i = 0; i < 40; ++i) {
    const test::World world = tight_world(random);
    const NativeCostModel model(world.table());
    // Plans with switches are not sliced.
    const std::vector<std::string> without{"sliced_microbatches"};
    const SearchResult referee = run(model, "exhaustive", without);
    const SearchResult found = run(model, "unified", without);
    INFO("seed " << seed << ", case " << i);
    REQUIRE(found.plans.empty() == referee.plans.empty());
    if (found.plans.empty()) continue;
    const RankedPlan& best = found.plans.front();
    REQUIRE(validate(best.plan, world.model, world.cluster).empty());
    const double gap = best.prediction.iteration_ms / referee.plans.front().prediction.iteration_ms - 1;
    REQUIRE(found.lower_bound_ms <= referee.plans.front().prediction.iteration_ms * (1 + 1e-9));
    if (referee.proven) REQUIRE(gap >= -1e-9);
    ++cases;
    if (gap <= 1e-9) ++exact;
    if (switches(referee.plans.front().plan)) ++switched;
    largest = std::max(largest, gap);
  }
  std::printf(
      "unified's gap to exhaustive with memory switches, seed %llu: %d cases, %d with switches, %d exact, "
      "largest %.4f %%\n",
      static_cast<unsigned long long>(seed), cases, switched, exact, 100 * largest);
  CHECK(switched >= 4);
  CHECK(exact == cases);
}

}  // namespace
}  // namespace trimtab::tuner
