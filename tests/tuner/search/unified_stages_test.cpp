// What `unified` gains by solving stages again operator by operator: the same worlds with and without.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <limits>

#include "split_world.hpp"
#include "tuner/search.hpp"
#include "usual_worlds.hpp"

namespace trimtab::tuner {
namespace {

// Of the best plan; infinite where none fits.
double searched(const CostModel& model, bool stage_program, std::uint64_t evaluations) {
  SearchOptions options;
  options.remedies = false;
  options.strategy = "unified";
  options.space = "all";
  options.unified.stage_program = stage_program;
  options.max_evaluations = evaluations;
  const SearchResult result = search(model, Knobs{}, options).value().result;
  return result.plans.empty() ? std::numeric_limits<double>::infinity() : result.plans[0].prediction.iteration_ms;
}

struct Tally {
  int cases = 0, better = 0, worse = 0;
  double gain = 0, loss = 0;  // relative, the largest
};

Tally compare(std::uint64_t seed, int cases, std::uint64_t evaluations) {
  Random random(seed);
  Tally tally;
  for (int i = 0; i < test::tried(test::usual_few(cases)); ++i) {
    test::World world = test::random_split_world(random, {20, 8, 10});
    if (i % 2 == 1) test::add_host_copies(random, world);
    const NativeCostModel model(world.table(true));
    const double without = searched(model, false, evaluations);
    const double with = searched(model, true, evaluations);
    INFO("seed " << seed << ", case " << i << ", evaluations " << evaluations);
    if (std::isinf(without) && std::isinf(with)) continue;
    ++tally.cases;
    if (with < without * (1 - 1e-9)) ++tally.better;
    if (with > without * (1 + 1e-9)) ++tally.worse;
    tally.gain = std::max(tally.gain, without / with - 1);
    tally.loss = std::max(tally.loss, with / without - 1);
  }
  std::printf(
      "stages solved again, %llu evaluations, seed %llu: better in %d of %d worlds, by %.2f %% at most, worse in "
      "%d, by %.2f %%\n",
      static_cast<unsigned long long>(evaluations), static_cast<unsigned long long>(seed), tally.better, tally.cases,
      100 * tally.gain, tally.worse, 100 * tally.loss);
  return tally;
}

TEST_CASE("solving stages operator by operator never makes a search worse that ends by itself, and many better") {
  const Tally tally = compare(5004, 30, 0);
  CHECK(tally.cases >= test::tried(test::usual_few(25)));
  CHECK(tally.worse == 0);
  CHECK(tally.better >= test::at_least(test::usual_few(5)));
}

// The rest of the budget starts from another plan, and may then end elsewhere.
TEST_CASE("with the same evaluations it is better far more often than it is worse") {
  Tally all;
  for (const std::uint64_t evaluations : {350, 1400, 7000}) {
    const Tally tally = compare(5004, 30, evaluations);
    all.better += tally.better;
    all.worse += tally.worse;
  }
  CHECK(all.better >= test::at_least(test::usual_few(20)));
  CHECK(all.worse * 5 <= all.better);
}

}  // namespace
}  // namespace trimtab::tuner
