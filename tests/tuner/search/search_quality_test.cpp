#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/plan_space.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

SearchOutcome run(const test::World& world, const std::string& strategy, std::vector<std::string> excluded = {}) {
  const CostTable table = world.table();
  const NativeCostModel model(table);
  SearchOptions options;
  options.remedies = false;
  options.strategy = strategy;
  options.excluded = std::move(excluded);
  return search(model, Knobs{}, options).value();
}

double best_ms(const SearchOutcome& outcome) {
  return outcome.result.plans.empty() ? 0 : outcome.result.plans.front().prediction.iteration_ms;
}

// Every plan of the space by the public interface alone: no pruning, no memory of stages.
class EveryPlan {
 public:
  explicit EveryPlan(const test::World& world)
      : world_(world), table_(world.table()), model_(table_), space_(plan_space(world.model, world.cluster, {}, 0)) {}

  double best() {
    for (const std::int32_t microbatch : space_.microbatches) {
      for (std::int32_t stages = 1; stages <= space_.stages_max; ++stages) {
        for (const auto& split : space_.device_splits(world_.model, microbatch, stages, 1000))
          cut(microbatch, split, {});
      }
    }
    return best_;
  }

 private:
  void cut(std::int32_t microbatch, const std::vector<std::int32_t>& split, std::vector<std::int32_t> ends) {
    if (ends.size() + 1 == split.size()) {
      ends.push_back(space_.operators);
      recompute(microbatch, split, ends);
      return;
    }
    for (std::int32_t end = ends.empty() ? 1 : ends.back() + 1; end < space_.operators; ++end) {
      ends.push_back(end);
      cut(microbatch, split, ends);
      ends.pop_back();
    }
  }

  void recompute(std::int32_t microbatch, const std::vector<std::int32_t>& split,
                 const std::vector<std::int32_t>& ends) {
    for (std::uint32_t subset = 0; subset < (1U << space_.operators); ++subset) {
      std::vector<std::vector<Range>> sets(split.size());
      std::size_t stage = 0;
      for (std::int32_t i = 0; i < space_.operators; ++i) {
        if (i == ends[stage]) ++stage;
        if ((subset >> i) & 1U) sets[stage].push_back({i, i + 1});
      }
      const Plan plan = test::make_plan(world_.model, microbatch, ends, split, sets);
      const Prediction prediction = model_.evaluate(plan);
      if (prediction.feasible && (best_ == 0 || prediction.iteration_ms < best_)) best_ = prediction.iteration_ms;
    }
  }

  const test::World& world_;
  CostTable table_;
  NativeCostModel model_;
  PlanSpace space_;
  double best_ = 0;
};

TEST_CASE("the exhaustive strategy finds what pricing every plan one by one finds") {
  const std::uint64_t seed = 1234;
  INFO("seed " << seed);
  Random random(seed);
  int fitted = 0;
  for (int i = 0; i < 80; ++i) {
    const test::World world = test::random_world(random, {4, 3, 2});
    const SearchOutcome outcome = run(world, "exhaustive");
    const double expected = EveryPlan(world).best();
    INFO("case " << i);
    REQUIRE(best_ms(outcome) == Approx(expected).epsilon(1e-12));
    if (expected > 0) {
      ++fitted;
      CHECK(outcome.result.proven);
    }
  }
  CHECK(fitted >= 50);
}

struct Gaps {  // over the exhaustive optimum, of worlds where a plan fits
  int cases = 0, within = 0;
  double worst = 0;
};

// Of the strategy in random worlds; `within` counts gaps below `near`.
Gaps gaps_of(const std::string& strategy, std::uint64_t seed, int worlds, double near) {
  Random random(seed);
  Gaps gaps;
  for (int i = 0; i < worlds; ++i) {
    const test::World world = test::random_world(random);
    const SearchOutcome referee = run(world, "exhaustive");
    const SearchOutcome found = run(world, strategy);
    INFO("seed " << seed << ", case " << i);
    REQUIRE(found.result.plans.empty() == referee.result.plans.empty());
    if (referee.result.plans.empty()) continue;
    ++gaps.cases;
    const double gap = best_ms(found) / best_ms(referee) - 1;
    REQUIRE(gap > -1e-9);
    REQUIRE(referee.result.lower_bound_ms <= best_ms(referee) * (1 + 1e-9));
    REQUIRE(found.result.lower_bound_ms <= best_ms(referee) * (1 + 1e-9));
    if (gap < near) ++gaps.within;
    gaps.worst = std::max(gaps.worst, gap);
  }
  return gaps;
}

TEST_CASE("aceso finds the exhaustive optimum in at least 95 % of small worlds and is never 3 % above it") {
  const Gaps gaps = gaps_of("aceso", 77, 300, 1e-9);
  INFO("exact in " << gaps.within << " of " << gaps.cases << " worlds, worst gap " << gaps.worst * 100 << " %");
  CHECK(gaps.cases > 200);
  CHECK(gaps.within >= 0.95 * gaps.cases);
  CHECK(gaps.worst <= 0.03);
}

TEST_CASE("unified finds a plan of the native model wherever there is one, near the exhaustive optimum") {
  const Gaps gaps = gaps_of("unified", 78, 200, 0.02);
  INFO("within 2 % in " << gaps.within << " of " << gaps.cases << " worlds, worst gap " << gaps.worst * 100 << " %");
  CHECK(gaps.cases > 120);
  CHECK(gaps.within >= 0.8 * gaps.cases);
}

TEST_CASE("more memory never makes the exhaustive best slower") {
  Random random(404);
  for (int i = 0; i < 60; ++i) {
    test::World world = test::random_world(random, {6, 3, 2});
    double before = 0;
    for (const double share : {0.15, 0.3, 0.5, 0.9}) {
      Bytes everything = 0;
      for (const Operator& op : world.model.operators) {
        everything += op.parameter_bytes * 4 + op.activation_bytes * world.model.global_batch;
      }
      world.cluster.nodes[0].memory_bytes = static_cast<Bytes>(static_cast<double>(everything) * share);
      const double now = best_ms(run(world, "exhaustive"));
      if (before > 0) REQUIRE(now <= before * (1 + 1e-12));
      if (before > 0) REQUIRE(now > 0);
      before = now;
    }
  }
}

TEST_CASE("the plans of a search are valid, fit, differ and are sorted, and the search's price is evaluate's") {
  Random random(55);
  for (int i = 0; i < 60; ++i) {
    const test::World world = test::random_world(random);
    const SearchOutcome outcome = run(world, i % 2 == 0 ? "aceso" : "exhaustive");
    double before = 0;
    std::vector<std::string> hashes;
    for (const RankedPlan& ranked : outcome.result.plans) {
      REQUIRE(validate(ranked.plan, world.model, world.cluster, Knobs{}).empty());
      REQUIRE(ranked.prediction.feasible);
      REQUIRE(ranked.prediction.missing_costs.empty());
      REQUIRE(ranked.prediction.iteration_ms >= before * (1 - 1e-12));
      before = ranked.prediction.iteration_ms;
      hashes.push_back(semantic_hash(ranked.plan));
    }
    std::sort(hashes.begin(), hashes.end());
    REQUIRE(std::adjacent_find(hashes.begin(), hashes.end()) == hashes.end());
  }
}

TEST_CASE("an excluded plan is not returned and the next best is") {
  Random random(66);
  int compared = 0;
  int exact = 0;
  for (int i = 0; i < 80; ++i) {
    const test::World world = test::random_world(random, {5, 3, 2});
    const SearchOutcome first = run(world, "exhaustive");
    if (first.result.plans.empty()) continue;
    const std::string best = semantic_hash(first.result.plans[0].plan);
    const SearchOutcome referee = run(world, "exhaustive", {best});
    const SearchOutcome found = run(world, "aceso", {best});
    for (const RankedPlan& ranked : referee.result.plans) REQUIRE(semantic_hash(ranked.plan) != best);
    for (const RankedPlan& ranked : found.result.plans) REQUIRE(semantic_hash(ranked.plan) != best);
    if (referee.result.plans.empty()) continue;
    REQUIRE(best_ms(referee) >= best_ms(first) * (1 - 1e-12));
    REQUIRE(best_ms(found) >= best_ms(referee) * (1 - 1e-9));
    ++compared;
    if (best_ms(found) <= best_ms(referee) * (1 + 1e-9)) ++exact;
  }
  CHECK(compared > 40);
  CHECK(exact >= 0.95 * compared);
}

}  // namespace
}  // namespace trimtab::tuner
