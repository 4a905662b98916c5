// With seven times the budget of any other strategy `unified` is no worse: its planners search as if each were alone.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>

#include "split_world.hpp"
#include "tuner/search.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::uint64_t kParts = 7;

using Budget = std::function<void(SearchOptions&)>;

// Of the best plan; infinite where none was found or the strategy refuses.
double searched(const test::World& world, const char* strategy, const char* space, const Budget& budget) {
  const NativeCostModel model(world.table(true));
  SearchOptions options;
  options.remedies = false;
  options.strategy = strategy;
  options.space = space;
  budget(options);
  const Result<SearchOutcome> outcome = search(model, Knobs{}, options);
  if (!outcome.ok() || outcome->result.plans.empty()) return std::numeric_limits<double>::infinity();
  return outcome->result.plans.front().prediction.iteration_ms;
}

struct Tally {
  int better = 0, equal = 0;
};

void compare(const test::World& world, const char* space, const Budget& one, const Budget& all, Tally& tally) {
  double best = std::numeric_limits<double>::infinity();
  for (const char* const strategy : {"aceso", "autopipe", "galvatron", "h3t", "oases"}) {
    best = std::min(best, searched(world, strategy, space, one));
  }
  const double unified = searched(world, "unified", space, all);
  if (std::isinf(best) && std::isinf(unified)) return;
  REQUIRE(unified <= best * (1 + 1e-12));
  ++(unified < best * (1 - 1e-9) ? tally.better : tally.equal);
}

test::World world_of(Random& random, int i) {
  test::World world = test::random_split_world(random, {20, 8, 10});
  if (i % 2 == 1) test::add_host_copies(random, world);
  return world;
}

TEST_CASE("unified is no worse than any strategy with a seventh of its evaluations, however few") {
  const std::uint64_t seed = 911;
  Random random(seed);
  for (const std::uint64_t evaluations : {10, 60, 400}) {
    Tally tally;
    for (int i = 0; i < 8; ++i) {
      const test::World world = world_of(random, i);
      for (const char* const space : {"job", "aceso", "all"}) {
        INFO("seed " << seed << ", " << evaluations << " evaluations, case " << i << ", space " << space);
        compare(
            world, space, [&](SearchOptions& o) { o.max_evaluations = evaluations; },
            [&](SearchOptions& o) { o.max_evaluations = kParts * evaluations; }, tally);
      }
    }
    std::printf("unified with %d x %llu evaluations: better %d times, equal %d times, seed %llu\n",
                static_cast<int>(kParts), static_cast<unsigned long long>(evaluations), tally.better, tally.equal,
                static_cast<unsigned long long>(seed));
    CHECK(tally.better > 0);
  }
}

// A clock that ticks whenever a search asks whether its time is over.
TEST_CASE("unified is no worse than any strategy with a seventh of its time") {
  const std::uint64_t seed = 912;
  Random random(seed);
  for (const int ticks : {50, 600}) {
    Tally tally;
    for (int i = 0; i < 6; ++i) {
      const test::World world = world_of(random, i);
      for (const char* const space : {"job", "all"}) {
        INFO("seed " << seed << ", " << ticks << " ticks, case " << i << ", space " << space);
        int alone = 0;
        int shared = 0;
        // One tick less, for the rounding of shares.
        const Budget one = [&](SearchOptions& o) {
          alone = 0;
          o.stop = [&alone, ticks] { return ++alone >= ticks; };
        };
        const int all_ticks = static_cast<int>(kParts) * (ticks + 1);
        const Budget all = [&](SearchOptions& o) {
          o.stop = [&shared, all_ticks] { return ++shared >= all_ticks; };
          o.spent = [&shared, all_ticks] { return static_cast<double>(shared) / all_ticks; };
        };
        compare(world, space, one, all, tally);
      }
    }
    std::printf("unified with %d x %d ticks: better %d times, equal %d times, seed %llu\n", static_cast<int>(kParts),
                ticks, tally.better, tally.equal, static_cast<unsigned long long>(seed));
    CHECK(tally.better > 0);
  }
}

TEST_CASE("a search that goes on where aceso ended is no worse than that, plan by plan, with the same evaluations") {
  Random random(913);
  int better = 0;
  for (int i = 0; i < test::tried(12); ++i) {
    const test::World world = world_of(random, i);
    const NativeCostModel model(world.table(true));
    Knobs knobs;
    knobs.tensor_parallel = knobs.sharded = true;
    knobs.sequence_parallel = knobs.interleaved = i % 3 == 0;
    SearchOptions options;
    options.max_evaluations = i % 2 == 0 ? 100 : 3000;
    options.distinct = i % 4 < 2 ? 0.005 : 0;
    const SearchOutcome alone = search(model, knobs, options).value();
    options.first = "aceso";
    options.strategy = "unified";
    const SearchOutcome both = search(model, knobs, options).value();
    INFO("seed 913, case " << i);
    CHECK(both.result.strategy == "unified");
    REQUIRE(both.result.plans.size() >= alone.result.plans.size());
    for (std::size_t k = 0; k < alone.result.plans.size(); ++k) {
      REQUIRE(both.result.plans[k].prediction.iteration_ms <= alone.result.plans[k].prediction.iteration_ms);
    }
    if (both.result.plans.empty()) {
      REQUIRE_FALSE(both.infeasible.empty());
      continue;
    }
    REQUIRE(both.infeasible.empty());
    REQUIRE(both.result.lower_bound_ms <= both.result.plans.front().prediction.iteration_ms);
    REQUIRE(both.result.lower_bound_ms >= alone.result.lower_bound_ms);
    const auto slower = [](const RankedPlan& of, const RankedPlan& than) {
      return of.prediction.iteration_ms > than.prediction.iteration_ms * (1 + 1e-9);
    };
    const auto& few = alone.result.plans;
    better += !std::ranges::equal(few, both.result.plans, std::not_fn(slower)) ? 1 : 0;
  }
  CHECK(better > 0);
}

}  // namespace
}  // namespace trimtab::tuner
