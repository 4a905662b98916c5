// Knobs of a whole plan, and shards over some replicas: searches against every plan of random small worlds.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>
#include <map>

#include "../brute_force.hpp"
#include "../split_world.hpp"
#include "plan/candidate.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

bool is_of_operator(CostKind kind) {
  return kind == CostKind::kOperatorForward || kind == CostKind::kOperatorBackward ||
         kind == CostKind::kOperatorStoredBytes || kind == CostKind::kOperatorWorkingBytes;
}

// Operators measured on ranks that share sequences, now and then so well that it pays.
void add_sharing(Random& random, test::World& world) {
  for (Operator& op : world.model.operators) op.shape["sequence"] = 64;
  std::map<std::pair<std::string, std::string>, std::int64_t> percents;
  const std::vector<Cost> measured = world.costs;
  for (const Cost& cost : measured) {
    if (!is_of_operator(cost.key.kind) || cost.key.sharding != "default") continue;
    for (const std::string sharding : {"sequence", "context-2", "sequence-context-2", "context-4"}) {
      if (cost.key.tp == 1 && sharding.starts_with("sequence")) continue;
      const std::int64_t ranks = sharding.ends_with("4") ? 4 : sharding.ends_with("2") ? 2 : 1;
      const auto [found, added] = percents.try_emplace({cost.key.subject, sharding}, 0);
      if (added) found->second = random.between(70 / ranks, 130 / ranks);
      CostKey key = cost.key;
      key.sharding = sharding;
      const auto value = static_cast<std::int64_t>(cost.statistics.mean());
      world.costs.push_back(test::exact_cost(key, std::max<std::int64_t>(1, value * found->second / 100)));
    }
  }
}

std::int64_t whole_times(const Cost& cost, std::int64_t times) {
  return static_cast<std::int64_t>(cost.statistics.mean()) * times;
}

double best_ms(const SearchResult& result) {
  return result.plans.empty() ? 0 : result.plans.front().prediction.iteration_ms;
}

SearchResult run(const test::World& world, const Knobs& knobs, const std::string& strategy, bool enumerates = true) {
  const NativeCostModel model(world.table());
  SearchOptions options;
  options.remedies = false;
  options.strategy = strategy;
  if (!enumerates) options.unified.enumerated_ways = 0;
  return search(model, knobs, options).value().result;
}

struct Worlds {
  std::uint64_t seed;
  int cases;
  test::RandomWorldOptions sizes;
  Knobs knobs;
  std::function<void(const test::World&, test::BruteForceSpace&)> set;
  std::int64_t dear = 1;  // above 1: worlds of four devices alone, where collectives of all take so many times as long
};

struct Gaps {
  int cases = 0, exact = 0, used = 0;
  double largest = 0, bound = 0;
};

// Each must hold in every world; `uses` says whether a plan has what is looked for.
template <typename Uses>
Gaps compare(const char* what, const Worlds& of, Uses&& uses) {
  Random random(of.seed);
  Gaps gaps;
  for (int i = 0; i < test::tried(of.cases); ++i) {
    test::World world = test::random_split_world(random, of.sizes);
    add_sharing(random, world);
    if (of.dear > 1 && world.cluster.devices() < 4) continue;
    for (Cost& cost : world.costs) {
      if (of.dear > 1 && cost.key.group_size == 4) cost = test::exact_cost(cost.key, whole_times(cost, of.dear));
    }
    if (of.knobs.mixed_splits) {
      for (Operator& op : world.model.operators) op.shardings = {"default"};
    }
    test::BruteForceSpace space;
    of.set(world, space);
    const test::BruteForceResult best = test::brute_force(world, space);
    INFO(what << ", seed " << of.seed << ", case " << i);
    const SearchResult referee = run(world, of.knobs, "exhaustive");
    const SearchResult unified = run(world, of.knobs, "unified");
    const SearchResult searched = run(world, of.knobs, "unified", false);
    REQUIRE(best_ms(referee) == Approx(best.ms).epsilon(1e-12));
    REQUIRE(unified.plans.empty() == (best.ms == 0));
    REQUIRE(searched.plans.empty() == (best.ms == 0));
    if (best.ms == 0) continue;
    REQUIRE(referee.proven);
    const RankedPlan& found = unified.plans.front();
    REQUIRE(validate(found.plan, world.model, world.cluster, of.knobs).empty());
    REQUIRE(parse_plan(to_json(found.plan), "").value() == found.plan);
    if (searched.proven) REQUIRE(best_ms(searched) == Approx(best.ms).epsilon(1e-9));
    REQUIRE(best_ms(unified) == Approx(best.ms).epsilon(1e-9));
    REQUIRE(unified.lower_bound_ms <= best.ms * (1 + 1e-9));
    REQUIRE(searched.lower_bound_ms <= best.ms * (1 + 1e-9));
    ++gaps.cases;
    if (uses(*best.plan)) ++gaps.used;
    const double gap = best_ms(searched) / best.ms - 1;
    if (gap <= 1e-9) ++gaps.exact;
    gaps.largest = std::max(gaps.largest, gap);
    gaps.bound = std::max(gaps.bound, 1 - searched.lower_bound_ms / best.ms);
  }
  std::printf(
      "%s, seed %llu: %d worlds, %d best plans use it. Without enumeration %d exact, largest gap %.4f %%, bound below "
      "by %.2f %%\n",
      what, static_cast<unsigned long long>(of.seed), gaps.cases, gaps.used, gaps.exact, 100 * gaps.largest,
      100 * gaps.bound);
  return gaps;
}

bool any_segment(const Plan& plan, const std::function<bool(const Segment&)>& is) {
  return std::ranges::any_of(plan.stages, [&](const Stage& stage) { return std::ranges::any_of(stage.segments, is); });
}

TEST_CASE("sequence parallelism is searched as if every plan were priced") {
  Worlds of{971, 40, {4, 4, 2}, {}, [](const test::World& world, test::BruteForceSpace& space) {
              space.tensor_parallel = test::brute_force_space(world, "aceso-free").tensor_parallel;
              space.sequence_parallel = true;
            }};
  of.knobs.tensor_parallel = of.knobs.sequence_parallel = true;
  const Gaps gaps = compare("sequence parallelism", of, [](const Plan& plan) { return !plan.target_knobs.empty(); });
  CHECK(gaps.used > test::at_least(3));
}

TEST_CASE("context parallelism is searched as if every plan were priced") {
  Worlds of{972, 40, {4, 4, 2}, {}, [](const test::World& world, test::BruteForceSpace& space) {
              space.tensor_parallel = test::brute_force_space(world, "aceso-free").tensor_parallel;
              space.context_parallel = {1, 2, 4};
              space.sequence_parallel = true;
            }};
  of.knobs.tensor_parallel = of.knobs.sequence_parallel = of.knobs.context_parallel = true;
  const Gaps gaps = compare("context parallelism", of, [](const Plan& plan) {
    return any_segment(plan, [](const Segment& segment) { return segment.cp > 1; });
  });
  CHECK(gaps.used > test::at_least(3));
}

TEST_CASE("interleaved plans are searched as if every plan were priced") {
  Worlds of{976, 30, {5, 4, 4}, {}, [](const test::World&, test::BruteForceSpace& space) {
              space.stage_devices = {1};
              space.interleaved = true;
            }};
  of.knobs.interleaved = true;
  of.knobs.data_parallel = false;
  const Gaps gaps =
      compare("interleaving", of, [](const Plan& plan) { return plan.schedule.kind == ScheduleKind::kInterleaved; });
  CHECK(gaps.used > test::at_least(3));
}

TEST_CASE("all that holds for a whole plan is searched together") {
  Worlds of{977, 16, {4, 4, 4}, {}, [](const test::World& world, test::BruteForceSpace& space) {
              space.tensor_parallel = test::brute_force_space(world, "aceso-free").tensor_parallel;
              space.context_parallel = {1, 2, 4};
              space.sequence_parallel = space.interleaved = true;
            }};
  of.knobs.tensor_parallel = of.knobs.sequence_parallel = of.knobs.context_parallel = of.knobs.interleaved = true;
  compare("whole-plan knobs", of, [](const Plan& plan) {
    return plan.schedule.kind == ScheduleKind::kInterleaved && !plan.target_knobs.empty();
  });
}

TEST_CASE("shards over some replicas are searched as if every plan were priced") {
  Worlds of{973,
            60,
            {3, 4, 2},
            {},
            [](const test::World&, test::BruteForceSpace& space) {
              space.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients,
                              ShardedLevel::kParameters};
              space.partial_shards = true;
            },
            3};
  of.knobs.sharded = of.knobs.partial_shards = true;
  const Gaps gaps = compare("shards over some replicas", of, [](const Plan& plan) {
    return any_segment(plan, [](const Segment& segment) { return segment.sharded_degree > 0; });
  });
  CHECK(gaps.used > test::at_least(0));
}

TEST_CASE("splits mixed in a stage are searched for a job as if every plan were priced") {
  Worlds of{978, 24, {3, 4, 2}, {}, [](const test::World& world, test::BruteForceSpace& space) {
              space.tensor_parallel = test::brute_force_space(world, "aceso-free").tensor_parallel;
              space.mixed = true;
            }};
  of.knobs.tensor_parallel = of.knobs.mixed_splits = true;
  const Gaps gaps = compare("mixed splits", of, [](const Plan& plan) {
    return std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.segments.size() > 1; });
  });
  CHECK(gaps.used > test::at_least(0));
}

double best_with_idle(const test::World& world) {
  Knobs knobs;
  knobs.tensor_parallel = knobs.sequence_parallel = knobs.context_parallel = knobs.interleaved = true;
  const NativeCostModel model(world.table());
  SearchOptions options;
  options.remedies = false;
  options.strategy = "exhaustive";
  options.idle_devices = true;
  const double ms = best_ms(search(model, knobs, options).value().result);
  return ms == 0 ? std::numeric_limits<double>::infinity() : ms;
}

TEST_CASE(
    "more memory, faster links or one more device make no best plan slower, with all that holds for whole plans") {
  const std::uint64_t seed = 979;
  Random random(seed);
  int cases = 0;
  for (int i = 0; i < test::tried(8); ++i) {
    const test::World world = [&random] {
      test::World made = test::random_split_world(random, {4, 3, 4});
      add_sharing(random, made);
      return made;
    }();
    INFO("seed " << seed << ", case " << i);
    const double best = best_with_idle(world);
    test::World other = world;
    for (Node& node : other.cluster.nodes) node.memory_bytes *= 2;
    CHECK(best_with_idle(other) <= best * (1 + 1e-9));
    other = world;
    for (Cost& cost : other.costs) {
      const bool link = cost.key.kind == CostKind::kCollective || cost.key.kind == CostKind::kPointToPoint;
      const auto faster = static_cast<std::int64_t>(cost.statistics.mean()) / 2;
      if (link) cost = test::exact_cost(cost.key, faster);
    }
    CHECK(best_with_idle(other) <= best * (1 + 1e-9));
    if (world.cluster.nodes.size() > 1 || world.cluster.devices() < 2) continue;
    other = world;
    --other.cluster.nodes[0].devices;
    CHECK(best <= best_with_idle(other) * (1 + 1e-9));
    ++cases;
  }
  CHECK(cases > test::at_least(2));
}

TEST_CASE("a job that does not allow what holds for a whole plan is searched in one space") {
  Random random(974);
  test::World world = test::random_split_world(random, {4, 4, 2});
  add_sharing(random, world);
  Knobs knobs;
  knobs.tensor_parallel = true;
  const PlanSpace space = plan_space(world.model, world.cluster, knobs, 1);
  CHECK(whole_plan_spaces(world.model, space).empty());
  for (Operator& op : world.model.operators) op.shape["sequence"] = 63;
  knobs.sequence_parallel = knobs.context_parallel = true;
  CHECK(whole_plan_spaces(world.model, plan_space(world.model, world.cluster, knobs, 1)).empty());
}

TEST_CASE("plans that share sequences are candidates of their own space alone") {
  Random random(975);
  test::World world = test::random_split_world(random, {4, 4, 4});
  while (world.cluster.devices() != 4) world = test::random_split_world(random, {4, 4, 4});
  Knobs knobs;
  knobs.tensor_parallel = knobs.sequence_parallel = knobs.context_parallel = true;
  const PlanSpace first = plan_space(world.model, world.cluster, knobs, 1);
  const std::vector<PlanSpace> spaces = whole_plan_spaces(world.model, first);
  REQUIRE(spaces.size() > 3);
  for (const PlanSpace& of : spaces) {
    if (of.devices < 2 || of.tensor_parallel.front() > 1) continue;
    Candidate candidate;
    candidate.microbatch = 2;
    candidate.stages = {replicated_stage(1, 1), replicated_stage(of.operators, of.devices - 1)};
    const Plan plan = plan_of(candidate, world.model, {{}, {}}, of.sequence);
    CHECK(validate(plan, world.model, world.cluster, knobs).empty());
    CHECK(plan.stages.back().devices.back() == 3);
    CHECK(candidate_of(plan, of) == candidate);
    CHECK_FALSE(candidate_of(plan, first));
    CHECK_FALSE(validate(plan, world.model, world.cluster, Knobs{}).empty());
  }
}

}  // namespace
}  // namespace trimtab::tuner
