// Search restricted to a target: every plan is one that the target runs, and none that it runs is better.

#include <algorithm>
#include <array>
#include <map>

#include <catch2/catch.hpp>

#include "gpt_world.hpp"
#include "schema/job.hpp"
#include "schema/target.hpp"
#include "split_world.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "usual_worlds.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::array<std::string_view, 10> kTargets = {"megatron",   "deepspeed",  "galvatron",      "ddp",
                                                       "fsdp",       "torchtitan", "torchtitan-0.2", "transformers",
                                                       "accelerate", "pipelining"};

// A GPT measured on more ranks too.
test::World gpt_world(std::int32_t layers, std::int32_t devices, std::int32_t batch, std::uint64_t seed) {
  test::Workload work = test::gpt(layers, devices, batch);
  test::World world{work.model, work.cluster, work.costs};
  Random random(seed);
  test::add_splits(random, world);
  // No target splits along a second dimension, and every plan is many more with them.
  for (Operator& op : world.model.operators) op.shardings = {"default"};
  return world;
}

SearchOptions options_for(std::string_view target) {
  SearchOptions options;
  options.target = target;
  options.strategy = target == "trainer" ? "unified" : "target";
  options.space = "all";
  return options;
}

// Of a job that names none.
Knobs knobs_for(std::string_view target) {
  Knobs knobs;
  knobs.tensor_parallel = knobs.sharded = limits_plans(target);
  return within_target(knobs, target);
}

bool runs_on(std::string_view target, const Plan& plan, const Model& model) {
  return unhonoured(plan, model, target).value().empty();
}

TEST_CASE("a search for a target finds plans that it runs alone") {
  for (const std::string_view target : targets()) {
    const test::World world = gpt_world(6, 4, 16, 7);
    const NativeCostModel model(world.table(true));
    const SearchOutcome outcome = search(model, knobs_for(target), options_for(target)).value();
    CAPTURE(target, outcome.infeasible);
    REQUIRE_FALSE(outcome.result.plans.empty());
    for (const RankedPlan& ranked : outcome.result.plans) {
      CAPTURE(to_json(ranked.plan));
      CHECK(validate(ranked.plan, world.model, world.cluster).empty());
      CHECK(runs_on(target, ranked.plan, world.model));
      CHECK(export_plan(ranked.plan, world.model, target).ok());
      CHECK(ranked.prediction.feasible);
    }
  }
}

TEST_CASE("a search for a target has the whole-plan knobs that it honours, and is no worse for them") {
  int with = 0;
  for (const std::string_view target : {"megatron", "torchtitan", "torchtitan-0.2", "fsdp2"}) {
    test::World world = gpt_world(4, 4, 16, 9);
    for (Operator& op : world.model.operators) op.shape["sequence"] = 64;
    const NativeCostModel model(world.table(true));
    Knobs knobs = knobs_for(target);
    SearchOptions options = options_for(target);
    options.plans = 60;
    const double before = search(model, knobs, options).value().result.plans.at(0).prediction.iteration_ms;
    knobs.sequence_parallel = knobs.context_parallel = knobs.interleaved = knobs.partial_shards = true;
    const SearchOutcome outcome = search(model, within_target(knobs, target), options).value();
    CAPTURE(target);
    REQUIRE_FALSE(outcome.result.plans.empty());
    CHECK(outcome.result.plans[0].prediction.iteration_ms <= before * (1 + 1e-12));
    for (const RankedPlan& ranked : outcome.result.plans) {
      CAPTURE(to_json(ranked.plan));
      CHECK(validate(ranked.plan, world.model, world.cluster).empty());
      CHECK(export_plan(ranked.plan, world.model, target).ok());
      const Segment& first = ranked.plan.stages[0].segments[0];
      const bool shares = shares_sequences(ranked.plan) || first.sharded_degree > 0;
      if (shares || ranked.plan.schedule.kind == ScheduleKind::kInterleaved) ++with;
    }
  }
  CHECK(with > 0);
}

TEST_CASE("where ranks change their plan as they train, what takes a launch stays as it is") {
  for (const std::string_view target : {"ddp", "fsdp", "fsdp2"}) {
    test::World world = gpt_world(4, 4, 16, 9);
    for (Node& node : world.cluster.nodes) node.memory_bytes *= 4;  // room for what is not sharded
    const NativeCostModel model(world.table(true));
    Knobs knobs = knobs_for(target);
    knobs.partial_shards = true;
    knobs = within_target(knobs, target);
    SearchOptions options = options_for(target);
    options.plans = 60;
    const auto of = [](const Plan& plan) { return plan.stages.at(0).segments.at(0); };
    const auto moves = [&](ShardedLevel level) {
      return target == "fsdp2" && (level == ShardedLevel::kGradients || level == ShardedLevel::kParameters);
    };
    std::map<std::pair<ShardedLevel, std::int32_t>, Plan> starts;
    const SearchResult free = search(model, knobs, options).value().result;
    const TargetLimits limits = target_limits(target).value();
    for (const ShardedLevel level : limits.levels) {
      for (const std::int32_t degree : {0, 2}) {
        if (degree > 0 && level == ShardedLevel::kNone) continue;
        Plan start = free.plans.at(0).plan;
        for (Segment& segment : start.stages.at(0).segments) {
          segment.sharded = level;
          segment.sharded_degree = degree;
        }
        if (runs_on(target, start, world.model)) starts.emplace(std::pair(level, degree), start);
      }
    }
    CHECK(starts.size() == (target == "ddp" ? 2 : 5));
    options.live = true;
    int with_other_level = 0;
    for (const auto& entry : starts) {
      const auto& way = entry.first;
      const Plan& start = entry.second;
      options.start = start;
      const SearchResult found = search(model, knobs, options).value().result;
      CAPTURE(target, to_json(start));
      CHECK(found.plans.size() > 1);
      for (const RankedPlan& one : found.plans) {
        const auto [level, degree] = std::pair(of(one.plan).sharded, of(one.plan).sharded_degree);
        CHECK(degree == way.second);
        CHECK((level == way.first || (moves(level) && moves(way.first))));
        if (level != way.first) ++with_other_level;
      }
    }
    CHECK((with_other_level > 0) == (target == "fsdp2"));
  }
}

// Of all plans of a small space, the best that the target runs is no better than the one that was found.
TEST_CASE("no plan that a target runs is better than the one found, of all plans") {
  int compared = 0;
  const std::uint64_t seeds = test::all_worlds() ? 2 : 1;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const test::World world = gpt_world(2, 2, 4, seed);
    const NativeCostModel model(world.table(true));
    SearchOptions every;
    every.strategy = "exhaustive";
    every.space = "all";
    every.plans = 1000;
    every.without = {"memory_switches", "sub_batches", "sliced_microbatches"};
    const SearchResult all = search(model, Knobs{}, every).value().result;
    for (const std::string_view target : kTargets) {
      const SearchResult found = search(model, knobs_for(target), options_for(target)).value().result;
      CAPTURE(seed, target, all.plans.size());
      const auto best = std::find_if(all.plans.begin(), all.plans.end(),
                                     [&](const RankedPlan& one) { return runs_on(target, one.plan, world.model); });
      if (best == all.plans.end()) continue;
      ++compared;
      REQUIRE_FALSE(found.plans.empty());
      CAPTURE(to_json(best->plan), to_json(found.plans.front().plan));
      const double best_ms = model.evaluate(as_run(best->plan, target)).iteration_ms;
      CHECK(found.plans.front().prediction.iteration_ms <= best_ms * (1 + 1e-9));
    }
  }
  CHECK(compared >= static_cast<int>(kTargets.size() * seeds));
}

TEST_CASE("a target's search refuses what it cannot search") {
  const test::World world = gpt_world(2, 2, 4, 1);
  const NativeCostModel model(world.table(true));
  SearchOptions options = options_for("megatron");
  options.strategy = "unified";
  const auto other = search(model, Knobs{}, options);
  REQUIRE_FALSE(other.ok());
  CHECK_THAT(other.error().message, Catch::Contains("strategy 'target' alone"));
  options = options_for("");
  options.strategy = "target";
  const auto none = search(model, Knobs{}, options);
  REQUIRE_FALSE(none.ok());
  CHECK_THAT(none.error().message, Catch::Contains("--target"));
  const auto unknown = search(model, Knobs{}, options_for("megatorn"));
  REQUIRE_FALSE(unknown.ok());
  CHECK_THAT(unknown.error().message, Catch::Contains("did you mean 'megatron'"));
}

TEST_CASE("where a target's plans do not fit, it is said of the target") {
  test::World world = gpt_world(6, 4, 16, 7);
  world.cluster.nodes.front().memory_bytes = Bytes{120} << 20;
  const NativeCostModel model(world.table(true));
  const SearchOutcome outcome = search(model, knobs_for("deepspeed"), options_for("deepspeed")).value();
  CHECK(outcome.result.plans.empty());
  CHECK_THAT(outcome.infeasible, Catch::StartsWith("no plan that target deepspeed runs fits"));
}

bool has_split_operators(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    for (const Segment& segment : stage.segments) {
      if (segment.tp > 1) return true;
    }
  }
  return false;
}

bool shards_states(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    for (const Segment& segment : stage.segments) {
      if (segment.sharded != ShardedLevel::kNone) return true;
    }
  }
  return false;
}

// Replicas of the whole model.
Plan replicas(const test::World& world) {
  Knobs knobs;
  knobs.pipeline = false;
  return layout_of(usual_guess(world.model, world.cluster, knobs));
}

// What one knob that is off takes away, and nothing else.
TEST_CASE("each of a job's knobs holds in a search for a target too") {
  test::World world = gpt_world(6, 4, 16, 7);
  world.cluster.nodes.front().memory_bytes *= 4;  // so that nothing is needed to fit
  const NativeCostModel model(world.table(true));
  for (const std::string_view target : kTargets) {
    const Knobs all = knobs_for(target);
    for (const auto& [name, knob] : kKnobs) {
      Knobs knobs = all;
      if (!(knobs.*knob)) continue;
      knobs.*knob = false;
      SearchOptions options = options_for(target);
      if (name == "microbatch") options.start = replicas(world);
      const SearchOutcome outcome = search(model, knobs, options).value();
      CAPTURE(target, name, outcome.infeasible);
      for (const RankedPlan& ranked : outcome.result.plans) {
        CAPTURE(to_json(ranked.plan));
        Plan plan = ranked.plan;
        plan.target_knobs.clear();  // the target's own
        CHECK(validate(plan, world.model, world.cluster, knobs).empty());
        CHECK(runs_on(target, ranked.plan, world.model));
      }
      // Without replicas, stages or split operators there is nothing to give several devices.
      const bool possible = name != "data_parallel" || all.tensor_parallel || all.pipeline;
      CHECK(outcome.result.plans.empty() == !possible);
    }
  }
}

TEST_CASE("a target's own knobs are searched where nobody has named them") {
  const test::World world = gpt_world(6, 4, 16, 7);
  const NativeCostModel model(world.table(true));
  const auto found = [&](const Knobs& knobs) {
    SearchOptions options = options_for("megatron");
    options.plans = 1000;
    return search(model, knobs, options).value().result.plans;
  };
  Knobs knobs = knobs_for("megatron");
  CHECK(std::ranges::any_of(found(knobs), [](const RankedPlan& one) { return has_split_operators(one.plan); }));
  CHECK(std::ranges::any_of(found(knobs), [](const RankedPlan& one) { return shards_states(one.plan); }));
  knobs.tensor_parallel = false;
  CHECK(std::ranges::none_of(found(knobs), [](const RankedPlan& one) { return has_split_operators(one.plan); }));
  knobs.sharded = false;
  CHECK(std::ranges::none_of(found(knobs), [](const RankedPlan& one) { return shards_states(one.plan); }));
}

TEST_CASE("a job that fixes its microbatch keeps that of its plan in a search for a target") {
  const test::World world = gpt_world(6, 4, 16, 7);
  const NativeCostModel model(world.table(true));
  Knobs knobs = knobs_for("megatron");
  knobs.microbatch = false;
  SearchOptions options = options_for("megatron");
  Plan start = replicas(world);
  for (const std::int32_t microbatch : {4, 8}) {
    start.microbatch = microbatch;
    options.start = start;
    const SearchResult found = search(model, knobs, options).value().result;
    REQUIRE_FALSE(found.plans.empty());
    for (const RankedPlan& ranked : found.plans) CHECK(ranked.plan.microbatch == microbatch);
  }
}

}  // namespace
}  // namespace trimtab::tuner
