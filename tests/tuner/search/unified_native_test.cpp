// `unified` under the native model: against the exhaustive strategy on small worlds, its bounds and proofs, and
// clusters of thousands of devices.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>

#include "gpt_world.hpp"
#include "schema/plan.hpp"
#include "split_world.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "usual_worlds.hpp"

namespace trimtab::tuner {
namespace {

using Options = std::function<void(SearchOptions&)>;

SearchResult run(const test::World& world, const char* strategy, const char* space, const Options& set = nullptr) {
  const NativeCostModel model(world.table());
  SearchOptions options;
  options.remedies = false;
  options.strategy = strategy;
  options.space = space;
  if (set) set(options);
  return search(model, Knobs{}, options).value().result;
}

double best_ms(const SearchResult& result) {
  return result.plans.empty() ? 0 : result.plans.front().prediction.iteration_ms;
}

struct Comparison {
  const char* space;
  std::uint64_t seed;
  int cases;
  test::RandomWorldOptions sizes;
  bool splits;
};

struct Gaps {
  int cases = 0, proven = 0, exact = 0;
  double largest = 0;
};

// Checks what must hold in every world, and prints how far `unified` is from the best.
Gaps compare(const Comparison& of) {
  Random random(of.seed);
  Gaps gaps;
  for (int i = 0; i < test::tried(test::usual(of.cases)); ++i) {
    const test::World world =
        of.splits ? test::random_split_world(random, of.sizes) : test::random_world(random, of.sizes);
    const SearchResult referee = run(world, "exhaustive", of.space);
    const SearchResult found = run(world, "unified", of.space);
    INFO("space " << of.space << ", seed " << of.seed << ", case " << i);
    REQUIRE(found.plans.empty() == referee.plans.empty());
    if (referee.plans.empty()) {
      REQUIRE_FALSE(found.proven);
      continue;
    }
    REQUIRE(validate(found.plans[0].plan, world.model, world.cluster).empty());
    const double gap = best_ms(found) / best_ms(referee) - 1;
    // A bound holds for every plan that anybody has found.
    REQUIRE(found.lower_bound_ms <= std::min(best_ms(found), best_ms(referee)) * (1 + 1e-9));
    if (found.proven) REQUIRE(gap <= 1e-9);
    if (found.proven) REQUIRE(found.lower_bound_ms == Approx(best_ms(found)).epsilon(1e-9));
    if (referee.proven) REQUIRE(gap >= -1e-9);
    ++gaps.cases;
    if (found.proven) ++gaps.proven;
    if (gap <= 1e-9) ++gaps.exact;
    gaps.largest = std::max(gaps.largest, gap);
  }
  std::printf("unified's gap to exhaustive, space %s, seed %llu: %d cases, %d proven, %d exact, largest %.4f %%\n",
              of.space, static_cast<unsigned long long>(of.seed), gaps.cases, gaps.proven, gaps.exact,
              100 * gaps.largest);
  return gaps;
}

TEST_CASE("unified finds and proves the exhaustive optimum in the space of a job") {
  const Gaps gaps = compare({"job", 901, 1500, {8, 4, 2}, false});
  CHECK(gaps.cases > test::tried(test::usual(1000)));
  CHECK(gaps.proven == gaps.cases);
}

TEST_CASE("unified finds and proves the exhaustive optimum with tensor parallelism and derived recompute") {
  const Gaps gaps = compare({"aceso", 902, 1000, {8, 4, 2}, true});
  CHECK(gaps.cases > test::tried(test::usual(700)));
  CHECK(gaps.proven == gaps.cases);
}

TEST_CASE("unified finds the exhaustive optimum with everything that the native model prices") {
  for (const std::uint64_t seed : {903, 2903}) {
    const Gaps gaps = compare({"all", seed, 150, {4, 2, 2}, true});
    CHECK(gaps.cases > test::tried(test::usual(100)));
    CHECK(gaps.exact == gaps.cases);
  }
}

// What stands for what is missing without estimates: floors know each operator's own split, of which no stage has all.
TEST_CASE("a stage that no one split is measured for is no plan near the bound") {
  const std::uint64_t seed = 908;
  Random random(seed);
  int cases = 0;
  for (int i = 0; i < 40; ++i) {
    test::World world = test::random_split_world(random, {4, 4, 3});
    const std::string first = world.model.operators.front().cost_key;
    const auto gone = [&](const Cost& cost) {
      const bool of_operator =
          cost.key.kind == CostKind::kOperatorForward || cost.key.kind == CostKind::kOperatorBackward;
      return of_operator && (cost.key.subject == first ? cost.key.tp > 1 : cost.key.tp == 1 && cost.key.samples > 1);
    };
    std::erase_if(world.costs, gone);
    const NativeCostModel model(world.table());
    SearchOptions options;
    options.strategy = "unified";
    options.space = "all";
    options.unified.enumerated_ways = 0;
    INFO("seed " << seed << ", case " << i);
    const Result<SearchOutcome> found = search(model, Knobs{}, options);
    if (!found.ok()) continue;
    ++cases;
    for (const RankedPlan& of : found->result.plans) CHECK(of.prediction.missing_costs.empty());
  }
  CHECK(cases > 10);
}

TEST_CASE("the bound counts plans that may not be returned, and nothing is proven without them") {
  Random random(904);
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const test::World world = test::random_world(random, {6, 3, 2});
    const SearchResult all = run(world, "unified", "job");
    if (all.plans.size() < 2) continue;
    const std::string hash = semantic_hash(all.plans[0].plan);
    const SearchResult rest = run(world, "unified", "job", [&](SearchOptions& o) { o.excluded = {hash}; });
    INFO("seed 904, case " << i);
    REQUIRE_FALSE(rest.plans.empty());
    REQUIRE_FALSE(rest.proven);
    REQUIRE(rest.lower_bound_ms <= best_ms(all) * (1 + 1e-9));
    REQUIRE(best_ms(rest) >= best_ms(all) * (1 - 1e-9));
    if (best_ms(rest) > best_ms(all)) ++different;
  }
  CHECK(different > 20);
}

bool is_link(const Cost& cost) {
  return cost.key.kind == CostKind::kPointToPoint || cost.key.kind == CostKind::kCollective;
}

test::World scaled(const test::World& world, std::int64_t by, std::int64_t over, bool operators) {
  test::World out = world;
  for (Cost& cost : out.costs) {
    const CostKind kind = cost.key.kind;
    const bool time =
        kind == CostKind::kOperatorForward || kind == CostKind::kOperatorBackward || kind == CostKind::kOptimizerStep;
    if (!is_link(cost) && !(operators && time)) continue;
    cost = test::exact_cost(cost.key, static_cast<std::int64_t>(cost.statistics.mean()) * by / over);
  }
  return out;
}

void check_no_slower(const SearchResult& before, const SearchResult& after) {
  if (!before.proven) return;
  REQUIRE(after.proven);
  REQUIRE(best_ms(after) <= best_ms(before) * (1 + 1e-9));
}

TEST_CASE("proven answers: more memory, faster links, an idle device never make the best plan slower") {
  Random random(905);
  int proven = 0;
  for (int i = 0; i < test::usual_few(300); ++i) {
    const test::World world = test::random_world(random, {7, 4, 2});
    INFO("seed 905, case " << i);
    const SearchResult before = run(world, "unified", "job");
    if (before.proven) ++proven;
    test::World roomy = world;
    roomy.cluster.nodes[0].memory_bytes += roomy.cluster.nodes[0].memory_bytes / 5;
    check_no_slower(before, run(roomy, "unified", "job"));
    check_no_slower(before, run(scaled(world, 1, 2, false), "unified", "job"));
    if (before.proven) {
      REQUIRE(best_ms(run(scaled(world, 3, 1, true), "unified", "job")) == Approx(3 * best_ms(before)).epsilon(1e-9));
    }
    if (world.cluster.nodes[0].devices < 2) continue;
    test::World smaller = world;
    --smaller.cluster.nodes[0].devices;
    const auto idle = [](SearchOptions& o) { o.idle_devices = true; };
    check_no_slower(run(smaller, "unified", "job", idle), run(world, "unified", "job", idle));
  }
  CHECK(proven > test::usual_few(150));
}

TEST_CASE("unified is never slower than aceso in worlds that it cannot enumerate") {
  Random random(906);
  int better = 0;
  for (int i = 0; i < test::tried(test::usual_few(40)); ++i) {
    const test::World world = test::random_split_world(random, {14, 8, 11});
    for (const char* const space : {"job", "aceso"}) {
      const SearchResult aceso = run(world, "aceso", space);
      const SearchResult unified = run(world, "unified", space);
      INFO("seed 906, case " << i << ", space " << space);
      REQUIRE(unified.plans.empty() == aceso.plans.empty());
      if (aceso.plans.empty()) continue;
      REQUIRE(best_ms(unified) <= best_ms(aceso) * (1 + 1e-9));
      REQUIRE(unified.lower_bound_ms <= best_ms(unified));
      if (best_ms(unified) < best_ms(aceso) * (1 - 1e-9)) ++better;
    }
  }
  std::printf("unified is faster than aceso in %d of %d searches, seed 906\n", better,
              2 * test::tried(test::usual_few(40)));
}

TEST_CASE("proofs without pricing every plan: memory, links and devices more never make the best plan slower") {
  Random random(909);
  int proven = 0, cases = 0;
  const auto searched = [](SearchOptions& o) { o.unified.enumerated_ways = 0; };
  for (int i = 0; i < 60; ++i) {
    const test::World world = test::random_world(random, {14, 4, 9});
    INFO("seed 909, case " << i);
    const SearchResult before = run(world, "unified", "job", searched);
    if (before.plans.empty()) continue;
    ++cases;
    if (before.proven) ++proven;
    const auto check = [&](const test::World& changed) {
      const SearchResult after = run(changed, "unified", "job", searched);
      REQUIRE_FALSE(after.plans.empty());
      // No bound may be above what the world without the change had.
      REQUIRE(after.lower_bound_ms <= best_ms(before) * (1 + 1e-9));
      if (after.proven) REQUIRE(best_ms(after) <= best_ms(before) * (1 + 1e-9));
    };
    test::World roomy = world;
    roomy.cluster.nodes[0].memory_bytes += roomy.cluster.nodes[0].memory_bytes / 5;
    check(roomy);
    check(scaled(world, 1, 2, false));
    const SearchResult tripled = run(scaled(world, 3, 1, true), "unified", "job", searched);
    REQUIRE(tripled.lower_bound_ms <= 3 * best_ms(before) * (1 + 1e-9));
    if (tripled.proven) REQUIRE(before.lower_bound_ms * 3 <= best_ms(tripled) * (1 + 1e-9));
    if (tripled.proven && before.proven) REQUIRE(best_ms(tripled) == Approx(3 * best_ms(before)).epsilon(1e-9));
  }
  std::printf("unified proves the best of %d of %d worlds of 9 to 14 operators by its bound, seed 909\n", proven,
              cases);
  CHECK(proven > cases / 3);
}

TEST_CASE("every step of unified's trace names what held the plan before it back") {
  Random random(910);
  int steps = 0;
  for (int i = 0; i < 40; ++i) {
    const test::World world = test::random_split_world(random, {12, 4, 9});
    const NativeCostModel model(world.table());
    SearchOptions options;
    options.strategy = "unified";
    const SearchOutcome outcome = search(model, Knobs{}, options).value();
    for (const SearchStep& step : outcome.trace) {
      if (step.primitive.empty()) continue;  // found nothing better
      INFO("seed 910, case " << i << ", " << step.primitive);
      CHECK_THAT(step.bottleneck, Catch::StartsWith("stage "));
      ++steps;
    }
  }
  CHECK(steps > 20);
}

TEST_CASE("stages and cuts stay even where a job wants them so") {
  Random random(907);
  Knobs knobs;
  knobs.uneven_stages = false;
  for (int i = 0; i < 60; ++i) {
    const test::World world = test::random_world(random, {14, 6, 2});
    const NativeCostModel model(world.table());
    SearchOptions options;
    options.strategy = "unified";
    const SearchResult found = search(model, knobs, options).value().result;
    INFO("seed 907, case " << i);
    for (const RankedPlan& plan : found.plans) {
      REQUIRE(validate(plan.plan, world.model, world.cluster, knobs).empty());
    }
  }
}

TEST_CASE("thousands of devices known by their links alone: a valid plan, and no claim to be the best") {
  const test::Workload work = test::gpt_operators(60, 256, 2048, false);
  const NativeCostModel model(CostTable::build(work.model, work.cluster, work.costs, {true}).value());
  for (const char* const space : {"job", "all"}) {
    SearchOptions options;
    options.strategy = "unified";
    options.space = space;
    const SearchResult found = search(model, Knobs{}, options).value().result;
    INFO("space " << space);
    REQUIRE_FALSE(found.plans.empty());
    CHECK(validate(found.plans[0].plan, work.model, work.cluster).empty());
    CHECK_FALSE(found.proven);
    CHECK(found.lower_bound_ms > 0);
    CHECK(found.lower_bound_ms < best_ms(found));
  }
}

}  // namespace
}  // namespace trimtab::tuner
