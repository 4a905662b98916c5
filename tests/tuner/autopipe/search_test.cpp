#include <catch2/catch.hpp>
#include <cstdio>

#include "../world.hpp"
#include "papers/autopipe_cost_model.hpp"
#include "papers/cost_models.hpp"
#include "plan/plan_space.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

SearchOutcome run(const CostModel& model, const std::string& strategy, const std::string& space, Knobs knobs = {}) {
  SearchOptions options;
  options.strategy = strategy;
  options.space = space;
  return search(model, knobs, options).value();
}

double best_ms(const SearchOutcome& outcome) {
  return outcome.result.plans.empty() ? 0 : outcome.result.plans.front().prediction.iteration_ms;
}

test::World pipeline_world(Random& random) {
  test::World world = test::random_world(random, {9, 4, 3});
  world.model.global_batch = 12;
  return world;
}

TEST_CASE("under its own model the strategy has the optimum of the space and says so", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5401;
  Random random(kSeed);
  int priced = 0;
  int limited = 0;
  for (int i = 0; i < 120; ++i) {
    const test::World world = pipeline_world(random);
    const AutopipeCostModel model(world.table(), random.below(2) == 0 ? Transfers::kEager : Transfers::kBlocking);
    Knobs knobs;
    knobs.recompute = random.below(2) == 0;
    INFO("seed " << kSeed << ", case " << i << ", " << model.name() << ", recompute " << knobs.recompute);
    const SearchOutcome referee = run(model, "exhaustive", "autopipe-whole", knobs);
    const SearchOutcome found = run(model, "autopipe", "autopipe-whole", knobs);
    REQUIRE(best_ms(found) == Approx(best_ms(referee)).epsilon(1e-10));
    if (best_ms(referee) == 0) {
      CHECK(!found.infeasible.empty());
      continue;
    }
    REQUIRE(found.result.proven);
    REQUIRE(found.result.lower_bound_ms <= best_ms(found) * (1 + 1e-10));
    for (const RankedPlan& ranked : found.result.plans) {
      REQUIRE(validate(ranked.plan, world.model, world.cluster).empty());
      REQUIRE(ranked.prediction.feasible);
    }
    ++priced;
    limited += world.cluster.nodes[0].memory_bytes > 0 ? 1 : 0;
  }
  CHECK(priced > 60);
  CHECK(limited > 30);
}

// Every cut and every number of sliced microbatches through the public interface alone.
class EverySlicedPlan {
 public:
  EverySlicedPlan(const test::World& world, const CostModel& model) : world_(world), model_(model) {}

  double best() {
    const std::int32_t devices = world_.cluster.devices();
    for (const std::int32_t microbatch : allowed_microbatches(world_.model)) {
      for (std::int32_t stages = 1; stages <= devices; ++stages) {
        if (devices % stages != 0 || !divides_well(world_.model, microbatch, devices / stages)) continue;
        cut(microbatch, std::vector<std::int32_t>(static_cast<std::size_t>(stages), devices / stages), {});
      }
    }
    return best_;
  }

 private:
  void cut(std::int32_t microbatch, const std::vector<std::int32_t>& devices, std::vector<std::int32_t> ends) {
    const auto operators = static_cast<std::int32_t>(world_.model.operators.size());
    if (ends.size() + 1 == devices.size()) {
      ends.push_back(operators);
      price(test::make_plan(world_.model, microbatch, ends, devices));
      return;
    }
    for (std::int32_t end = ends.empty() ? 1 : ends.back() + 1; end < operators; ++end) {
      ends.push_back(end);
      cut(microbatch, devices, ends);
      ends.pop_back();
    }
  }

  void price(Plan plan) {
    const auto deepest = static_cast<std::int32_t>(plan.stages.size()) - 1;
    for (std::int32_t sliced = 0; sliced <= std::min(deepest, plan.microbatches()); ++sliced) {
      plan.schedule.sliced_microbatches = sliced;
      if (!validate(plan, world_.model, world_.cluster).empty()) continue;  // a single sample has no halves
      REQUIRE(model_.unpriced(plan).empty());
      const Prediction prediction = model_.evaluate(plan);
      if (prediction.feasible && (best_ == 0 || prediction.iteration_ms < best_)) best_ = prediction.iteration_ms;
    }
  }

  const test::World& world_;
  const CostModel& model_;
  double best_ = 0;
};

TEST_CASE("partition and slicing together are optimal too", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5402;
  Random random(kSeed);
  Knobs knobs;
  knobs.recompute = false;
  int sliced = 0;
  int proven = 0;
  for (int i = 0; i < 240; ++i) {
    const test::World world = pipeline_world(random);
    const AutopipeCostModel model(world.table(), random.below(2) == 0 ? Transfers::kEager : Transfers::kBlocking);
    INFO("seed " << kSeed << ", case " << i << ", " << model.name());
    const SearchOutcome found = run(model, "autopipe", "autopipe", knobs);
    REQUIRE(best_ms(found) == Approx(EverySlicedPlan(world, model).best()).epsilon(1e-10));
    if (found.result.plans.empty()) continue;
    REQUIRE(found.result.lower_bound_ms <= best_ms(found) * (1 + 1e-10));
    sliced += found.result.plans.front().plan.schedule.sliced_microbatches > 0 ? 1 : 0;
    proven += found.result.proven ? 1 : 0;
    const SearchOutcome referee = run(model, "exhaustive", "autopipe", knobs);
    REQUIRE(best_ms(referee) == Approx(best_ms(found)).epsilon(1e-10));
  }
  CHECK(sliced > 10);
  CHECK(proven > 60);
}

TEST_CASE("an excluded plan is not returned, and nothing is called proven then", "[autopipe]") {
  Random random(5403);
  for (int i = 0; i < 20; ++i) {
    const test::World world = pipeline_world(random);
    const AutopipeCostModel model(world.table(), Transfers::kBlocking);
    const SearchOutcome first = run(model, "autopipe", "autopipe-whole");
    if (first.result.plans.empty()) continue;
    SearchOptions options;
    options.strategy = "autopipe";
    options.space = "autopipe-whole";
    options.excluded = {semantic_hash(first.result.plans.front().plan)};
    const SearchOutcome second = search(model, Knobs{}, options).value();
    CHECK_FALSE(second.result.proven);
    for (const RankedPlan& ranked : second.result.plans) {
      CHECK(semantic_hash(ranked.plan) != options.excluded.front());
    }
  }
}

TEST_CASE("under the native model its plans are priced natively and near the best of the space", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5404;
  Random random(kSeed);
  double worst = 0;
  int optimal = 0;
  int all = 0;
  for (int i = 0; i < 80; ++i) {
    const test::World world = pipeline_world(random);
    const NativeCostModel model(world.table());
    INFO("seed " << kSeed << ", case " << i);
    const SearchOutcome referee = run(model, "exhaustive", "autopipe-whole");
    const SearchOutcome found = run(model, "autopipe", "autopipe-whole");
    REQUIRE(found.result.plans.empty() == referee.result.plans.empty());
    if (found.result.plans.empty()) continue;
    const double above = best_ms(found) / best_ms(referee) - 1;
    REQUIRE(above >= -1e-10);
    REQUIRE(found.result.lower_bound_ms <= best_ms(referee) * (1 + 1e-10));
    worst = std::max(worst, above);
    optimal += above < 1e-10 ? 1 : 0;
    ++all;
  }
  std::printf("autopipe under the native model, seed %llu: optimal in %d of %d, worst %.2f %% above\n",
              static_cast<unsigned long long>(kSeed), optimal, all, 100 * worst);
  CHECK(all > 40);
  CHECK(optimal > all / 2);
}

TEST_CASE("a step's picture ends when the step ends, and its path is part of it", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5405;
  Random random(kSeed);
  for (int i = 0; i < 100; ++i) {
    const test::World world = pipeline_world(random);
    const auto operators = static_cast<std::int32_t>(world.model.operators.size());
    const std::int32_t stages = std::min(world.cluster.devices(), operators);
    std::vector<std::int32_t> ends;
    for (std::int32_t x = 1; x < stages; ++x) ends.push_back(x);
    ends.push_back(operators);
    Plan plan = test::make_plan(world.model, 1, ends, std::vector<std::int32_t>(ends.size(), 1));
    const NativeCostModel native(world.table());
    const AutopipeCostModel eager(world.table(), Transfers::kEager);
    const AutopipeCostModel blocking(world.table(), Transfers::kBlocking);
    for (const CostModel* model : {static_cast<const CostModel*>(&native), static_cast<const CostModel*>(&eager),
                                   static_cast<const CostModel*>(&blocking)}) {
      INFO("seed " << kSeed << ", case " << i << ", " << model->name());
      plan.schedule.sliced_microbatches = model == &native ? 0 : static_cast<std::int32_t>(random.below(ends.size()));
      const double ms = model->evaluate(plan).iteration_ms;
      const std::vector<TimelineEvent> timeline = model->timeline(plan);
      double end = 0;
      for (const TimelineEvent& event : timeline) end = std::max(end, event.end_ms);
      CHECK(end == Approx(ms).epsilon(1e-9));
      const StepPath path = model->step_path(plan);
      REQUIRE(!path.actions.empty());
      CHECK(path.master_stage >= 0);
      CHECK(path.master_stage < stages);
      CHECK(path.actions.front().begin_ms == Approx(0).margin(1e-9));
      CHECK(path.actions.back().end_ms == Approx(ms).epsilon(1e-9));
      for (std::size_t k = 0; k + 1 < path.actions.size(); ++k) {
        CHECK(path.actions[k].end_ms <= path.actions[k + 1].begin_ms + 1e-9 * ms);
        CHECK(std::abs(path.actions[k].stage - path.actions[k + 1].stage) <= stages);
      }
    }
    CHECK(eager.evaluate(plan).iteration_ms <= blocking.evaluate(plan).iteration_ms * (1 + 1e-12));
  }
}

TEST_CASE("models of more than 512 cuts are planned by layers or by fewer places, and nothing is called proven",
          "[autopipe]") {
  constexpr std::uint64_t kSeed = 5407;
  Random random(kSeed);
  for (const std::int32_t in_layer : {1, 2}) {
    std::vector<test::OperatorTruth> operators(700);
    for (std::size_t i = 0; i < operators.size(); ++i) {
      operators[i].cost_key = "op" + std::to_string(i % 40);
      operators[i].forward_ns = random.between(500000, 1500000);
      operators[i].backward_ns = 2 * operators[i].forward_ns;
      operators[i].output_bytes = 100;
    }
    test::World world = test::make_world(operators, 4, 4, {1, 4});
    test::add_links(world, 50000, 10);
    for (std::size_t i = 0; i < operators.size(); ++i) {
      world.model.operators[i].layer = static_cast<std::int32_t>(i) / in_layer;
    }
    const AutopipeCostModel model(world.table(), Transfers::kEager);
    INFO("seed " << kSeed << ", " << in_layer << " operators in a layer");
    const SearchOutcome found = run(model, "autopipe", "autopipe-whole");
    REQUIRE_FALSE(found.result.plans.empty());
    CHECK_FALSE(found.result.proven);
    CHECK(found.result.lower_bound_ms <= best_ms(found));
    const Plan& plan = found.result.plans.front().plan;
    CHECK(validate(plan, world.model, world.cluster).empty());
    for (std::size_t s = 1; s < plan.stages.size(); ++s) {
      CHECK(plan.stages[s].operators().begin % in_layer == 0);
    }
    // As many operators for each of four stages, one sample a microbatch.
    const Plan even = test::make_plan(world.model, 1, {176, 350, 526, 700}, {1, 1, 1, 1});
    CHECK(best_ms(found) <= model.evaluate(even).iteration_ms);
  }
}

TEST_CASE("knobs that the model does not price are refused by name", "[autopipe]") {
  Random random(5406);
  const test::World world = pipeline_world(random);
  const AutopipeCostModel model(world.table(), Transfers::kBlocking);
  Plan plan = test::make_plan(world.model, 1, {1, static_cast<std::int32_t>(world.model.operators.size())}, {1, 1});
  CHECK(model.unpriced(plan).empty());
  plan.schedule.sliced_microbatches = 1;
  CHECK(model.unpriced(plan).empty());
  plan.schedule.sliced_microbatches = 2;
  plan.schedule.kind = ScheduleKind::kGPipe;
  plan.schedule.sub_batches = 2;
  plan.schedule.cross_pass = true;
  plan.schedule.recompute_after_communication = true;
  plan.stages[1].segments[0].sharded = ShardedLevel::kOptimizer;
  plan.stages[1].segments[0].cp = 2;
  plan.stages[0].segments[0].switches.offload_optimizer = true;
  CHECK(model.unpriced(plan) ==
        std::vector<std::string>{"schedule.kind (only 1f1b is priced)",
                                 "schedule.sliced_microbatches above 1, the microbatches of the first stage's warm-up",
                                 "schedule.sub_batches", "schedule.cross_pass",
                                 "schedule.recompute_after_communication", "stages[0].segments[0].switches",
                                 "stages[1].segments[0].cp", "stages[1].segments[0].sharded"});
}

TEST_CASE("its names", "[autopipe]") {
  Random random(5407);
  const test::World world = pipeline_world(random);
  const auto name_of = [&](std::string_view name) {
    return std::string(make_cost_model(name, world.model, world.cluster, world.costs).value()->name());
  };
  CHECK(name_of("autopipe") == "autopipe:blocking");
  CHECK(name_of("autopipe:blocking") == "autopipe:blocking");
  CHECK(name_of("autopipe:eager") == "autopipe:eager");
  CHECK_FALSE(make_cost_model("autopipe:late", world.model, world.cluster, world.costs).ok());
}

}  // namespace
}  // namespace trimtab::tuner
