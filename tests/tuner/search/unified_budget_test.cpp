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

}  // namespace
}  // namespace trimtab::tuner
