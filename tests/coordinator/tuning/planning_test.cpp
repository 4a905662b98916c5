// What is asked of the tuner, with the tuner's own small world.

#include "tuning/search/planning.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "schema/prediction.hpp"
#include "tuning/search/near_copies.hpp"
#include "world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using tuner::test::make_plan;
using tuner::test::World;

namespace {

// Six operators on two devices of 1 MB: everything fits, and recompute saves memory for time.
World small_world() {
  std::vector<tuner::test::OperatorTruth> operators;
  for (int i = 0; i < 6; ++i) {
    tuner::test::OperatorTruth of;
    of.cost_key = i < 4 ? "light" : "heavy";
    of.forward_ns = i < 4 ? 1'000'000 : 2'500'000;
    of.backward_ns = 2 * of.forward_ns;
    of.stored_bytes = 20'000;
    of.output_bytes = 500;
    of.parameter_bytes = 1000;
    operators.push_back(of);
  }
  World world = tuner::test::make_world(operators, 2, 8, {1, 2, 4, 8});
  tuner::test::add_links(world, 50'000, 20'000);
  world.cluster.nodes[0].memory_bytes = 1'000'000;
  return world;
}

SearchTask task_of(const World& world) {
  SearchTask task;
  task.model_json = to_json(world.model);
  task.cluster = world.cluster;
  task.costs = world.costs;
  task.plans = 8;
  task.max_evaluations = 20'000;
  return task;
}

SearchReply reply_to(const SearchTask& task) {
  const ManualClock clock;
  SearchReply reply = plan_search(task, clock, [] { return false; });
  INFO(reply.error);
  REQUIRE(reply.error.empty());
  return reply;
}

// The most that a device of the plan is predicted to need.
Bytes memory_of(const PricedPlan& candidate) {
  static const tuner::NativeCostModel cost_model(small_world().table());
  Bytes most = 0;
  for (const StagePrediction& stage : cost_model.evaluate(*candidate.plan.said()).stages) {
    most = std::max(most, stage.memory_bytes);
  }
  return most;
}

}  // namespace

TEST_CASE("a plan that ran out of memory rules out itself and all that need as much") {
  SearchTask task = task_of(small_world());
  const SearchReply before = reply_to(task);
  REQUIRE_FALSE(before.candidates.empty());
  const PricedPlan& failed = before.candidates.front();
  task.too_big = {{failed.plan}};
  const SearchReply after = reply_to(task);
  REQUIRE_FALSE(after.candidates.empty());
  for (const PricedPlan& one : after.candidates) {
    INFO(one.plan.json);
    CHECK(memory_of(one) < memory_of(failed));
    CHECK(one.predicted.feasible);
  }
  // What ran is judged by the devices as they are.
  CHECK(after.initial.predicted.mean_ms == before.initial.predicted.mean_ms);
}

TEST_CASE("by as much as a plan held more than predicted, others must be predicted to need less than the limit") {
  World world = small_world();
  const PricedPlan failed = reply_to(task_of(world)).candidates.front();
  world.cluster.nodes[0].memory_bytes = memory_of(failed) + 1;  // it binds
  const auto limit = static_cast<double>(memory_of(failed) + 1);
  SearchTask task = task_of(world);
  task.too_big = {{failed.plan, 1.2 * static_cast<double>(memory_of(failed))}};
  const auto most = [&task] {
    Bytes bytes = 0;
    for (const PricedPlan& one : reply_to(task).candidates) bytes = std::max(bytes, memory_of(one));
    return static_cast<double>(bytes);
  };
  const double taught = most();
  CHECK(taught > 0);
  CHECK(taught <= 0.99 * limit / 1.2);  // and room for the noise of peaks
  // Without a peak only it and what is predicted to need as much is ruled out.
  task.too_big[0].peak_bytes = 0;
  CHECK(most() > limit / 1.2);
}

TEST_CASE("of several plans that ran out of memory the smallest counts, in any order") {
  SearchTask task = task_of(small_world());
  std::vector<PricedPlan> found = reply_to(task).candidates;
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return memory_of(a) < memory_of(b); });
  const Bytes least = memory_of(found.front());
  REQUIRE(least < memory_of(found.back()));
  for (const auto& order : {std::vector{found.front(), found.back()}, std::vector{found.back(), found.front()}}) {
    task.too_big = {{order[0].plan}, {order[1].plan}};
    for (const PricedPlan& one : reply_to(task).candidates) CHECK(memory_of(one) < least);
  }
}

TEST_CASE("when nothing is left that needs less, the search says so") {
  const World world = small_world();
  SearchTask task = task_of(world);
  // One microbatch of one sample, everything recomputed: the least that two stages can do.
  const Plan least = make_plan(world.model, 1, {3, 6}, {1, 1}, {{{0, 3}}, {{3, 6}}});
  task.too_big = {{PlanText(least)}};
  Bytes most = 0;
  for (const PricedPlan& one : reply_to(task_of(world)).candidates) most = std::max(most, memory_of(one));
  const SearchReply reply = reply_to(task);
  for (const PricedPlan& one : reply.candidates) CHECK(memory_of(one) < most);
  if (reply.candidates.empty()) CHECK_FALSE(reply.infeasible.empty());
}

TEST_CASE("an initial plan whose ranks share sequences needs a target that runs it") {
  World world = small_world();
  SearchTask task = task_of(world);
  task.price_only = true;
  const ManualClock clock;
  const auto error_of = [&](const Plan& plan) {
    task.initial = PlanText(plan);
    return plan_search(task, clock, [] { return false; }).error;
  };
  Plan plan = make_plan(world.model, 2, {6}, {2});
  CHECK(error_of(plan).empty());
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].cp = 2;
  CHECK_THAT(error_of(plan), Catch::Contains("the initial plan cannot be executed: its ranks share sequences"));
  plan.stages[0].segments[0].cp = 1;
  plan.stages[0].segments[0].tp = 2;
  CHECK(error_of(plan).find("share sequences") == std::string::npos);
  plan.target_knobs["sequence_parallel"] = "true";
  CHECK_THAT(error_of(plan), Catch::Contains("its ranks share sequences"));
  task.target = "megatron";
  CHECK(error_of(plan).find("share sequences") == std::string::npos);
  task.target = "trainer";
  CHECK(error_of(plan).empty());
  task.target = "ddp";
  CHECK_THAT(error_of(plan), Catch::Contains("target_knobs.sequence_parallel: is not known to this target"));
}

TEST_CASE("a search for a target offers what both the target and the job's knobs allow") {
  SearchTask task = task_of(small_world());
  task.plans = 1000;
  for (const char* const target : {"ddp", "megatron", "galvatron"}) {
    task.target = target;
    const auto offered = [&](const Knobs& knobs, auto what) {
      task.knobs = knobs;
      const SearchReply reply = reply_to(task);
      REQUIRE_FALSE(reply.candidates.empty());
      return std::ranges::any_of(reply.candidates, [&](const PricedPlan& one) {
        const Plan plan = parse_plan(one.plan.json, "candidate").value();
        return std::ranges::any_of(plan.stages, [&](const Stage& stage) {
          return std::ranges::any_of(stage.segments, [&](const Segment& segment) { return what(plan, segment); });
        });
      });
    };
    const auto sharded = [](const Plan&, const Segment& one) { return one.sharded != ShardedLevel::kNone; };
    const auto split = [](const Plan&, const Segment& one) { return one.tp > 1; };
    Knobs knobs;
    knobs.pipeline = false;
    CAPTURE(target);
    CHECK_FALSE(offered(knobs, sharded));
    CHECK_FALSE(offered(knobs, split));
    knobs.sharded = true;
    CHECK(offered(knobs, sharded));
    knobs.microbatch = false;
    const std::int32_t first = parse_plan(reply_to(task).initial.plan.json, "initial").value().microbatch;
    CHECK_FALSE(offered(knobs, [&](const Plan& plan, const Segment&) { return plan.microbatch != first; }));
  }
}

TEST_CASE("a plan that ran out of memory and cannot be read is an error that says which") {
  SearchTask task = task_of(small_world());
  task.too_big = {{PlanText("{", "hash")}};
  const ManualClock clock;
  CHECK_THAT(plan_search(task, clock, [] { return false; }).error, Catch::Contains("a plan that ran out of memory"));
}

TEST_CASE("candidates that differ in recompute alone differ by more than the least difference") {
  World world = small_world();
  world.cluster.nodes[0].memory_bytes = 150'000;  // so that recompute is needed, somewhere
  const SearchReply reply = reply_to(task_of(world));
  REQUIRE(reply.candidates.size() > 1);
  for (const PricedPlan& a : reply.candidates) {
    CHECK(a.layout == semantic_hash(layout_of(parse_plan(a.plan.json, "candidate").value())));
    for (const PricedPlan& b : reply.candidates) {
      if (a.plan.hash == b.plan.hash || a.layout != b.layout) continue;
      CHECK(std::abs(a.predicted.mean_ms - b.predicted.mean_ms) >
            0.999 * kLeastDifference * std::min(a.predicted.mean_ms, b.predicted.mean_ms));
    }
  }
}

TEST_CASE("a job may say what searches its plans") {
  SearchTask task = task_of(small_world());
  task.knobs.sharded = true;
  const auto evaluations = [&task](const std::string& strategy) {
    task.strategy = strategy;
    return reply_to(task).evaluations;
  };
  CHECK(evaluations("") == evaluations("unified"));
  CHECK(evaluations("") > evaluations("aceso"));
  task.strategy = "accso";
  const ManualClock clock;
  CHECK_THAT(plan_search(task, clock, [] { return false; }).error, Catch::Contains("accso"));
}

// Times of candidates, the best first.
std::vector<double> times_by(const char* strategy, SearchTask task) {
  task.strategy = strategy;
  std::vector<double> times;
  for (const PricedPlan& one : reply_to(task).candidates) {
    REQUIRE(std::ranges::find(task.excluded, one.plan.hash) == task.excluded.end());
    times.push_back(one.predicted.mean_ms);
  }
  std::ranges::sort(times);
  return times;
}

// Nothing is predicted from observations here: each search's candidates are in the order in which it looked for them.
TEST_CASE("a job's usual search has as many candidates as aceso's with the same budget, each as good") {
  Random random(4051);
  int better = 0;
  for (int i = 0; i < tuner::test::tried(8); ++i) {
    const World world = tuner::test::random_world(random, {10, 6, 4});
    SearchTask task = task_of(world);
    task.max_evaluations = i % 2 == 0 ? 300 : 3000;
    task.knobs.sharded = i % 3 == 0;
    if (i % 4 == 1) task.slow_devices[0] = 0.5;
    if (i % 4 == 3) task.link_changes.levels["intra_node"] = {0.25, 1};
    for (int trials = 0; trials < 3; ++trials) {
      INFO("seed 4051, case " << i << ", after " << trials << " trials");
      const std::vector<double> aceso = times_by("aceso", task);
      const std::vector<double> usual = times_by("", task);
      REQUIRE(usual.size() >= aceso.size());
      for (std::size_t k = 0; k < aceso.size(); ++k) REQUIRE(usual[k] <= aceso[k] * (1 + 1e-12));
      better += usual.size() > aceso.size() || usual != aceso ? 1 : 0;
      const SearchReply reply = reply_to(task);
      if (reply.candidates.empty()) break;
      task.excluded.push_back(reply.candidates.front().plan.hash);
      if (trials == 1) task.too_big = {{reply.candidates.back().plan}};
    }
  }
  CHECK(better > 0);
}

TEST_CASE("measured plans come back with their layout and the calibrated prediction") {
  const World world = small_world();
  SearchTask task = task_of(world);
  const Plan plan = make_plan(world.model, 2, {3, 6}, {1, 1}, {{{0, 3}}, {}});
  const Plan other = make_plan(world.model, 4, {3, 6}, {1, 1});
  const Plan third = make_plan(world.model, 2, {2, 6}, {1, 1});
  const auto measured = [](const Plan& of, double raw) {
    return MeasuredPlan{{to_json(of), semantic_hash(of)}, raw * 1.4, raw * 0.01, {}, {}, 0, {}};
  };
  // What plans take by the costs alone; of one step, nothing is learnt.
  const auto raw_of = [&](const Plan& of) {
    task.observations = {measured(of, 100)};
    return reply_to(task).observed[0].predicted.raw_ms;
  };
  const double raw = raw_of(plan);
  const std::vector<MeasuredPlan> seen{measured(plan, raw), measured(other, raw_of(other)),
                                       measured(third, raw_of(third))};
  task.observations = seen;
  const SearchReply reply = reply_to(task);
  REQUIRE(reply.observed.size() == 3);
  CHECK(reply.observed[0].layout == semantic_hash(layout_of(plan)));
  CHECK(reply.observed[0].predicted.raw_ms == raw);
  CHECK(reply.observed[0].predicted.mean_ms > 1.2 * raw);
}

TEST_CASE("a near copy has the same layout and a prediction within the noise") {
  const auto candidate = [](const char* layout, double ms) {
    return PricedPlan{{"plan", "hash"}, layout, {ms, ms, ms * 0.9, ms * 1.1, true}};
  };
  const std::vector<KnownPlan> known = {{"trial 1", "a", 100, 0.002}, {"trial 2", "a", 120, 0.04}};
  REQUIRE(near_copy_of(candidate("a", 100.9), known) != nullptr);
  CHECK(near_copy_of(candidate("a", 100.9), known)->name == "trial 1");
  CHECK(near_copy_of(candidate("a", 99.1), known) != nullptr);
  CHECK(near_copy_of(candidate("a", 101.1), known) == nullptr);
  CHECK(near_copy_of(candidate("b", 100), known) == nullptr);
  REQUIRE(near_copy_of(candidate("a", 124), known) != nullptr);  // 3.3 % of a measurement that is sure to 4 %
  CHECK(near_copy_of(candidate("a", 124), known)->name == "trial 2");
  CHECK(near_copy_of(candidate("a", 126), known) == nullptr);
  CHECK(near_copy_of(candidate("", 100), {{"unknown", "", 100, 0.1}}) == nullptr);
}
