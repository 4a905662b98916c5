#include "papers/oases_cost_model.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "papers/oases/tables.hpp"
#include "plan/plan_space.hpp"
#include "pricing/evaluator.hpp"
#include "published.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner::oases {
namespace {

const test::Setting kLlama{"llama-7B", 32};

OasesCostModel llama(OasesVariant variant = OasesVariant::kPaper) {
  return *test::cost_model(kLlama, variant);
}

// tp 2 on the first three operators, tp 4 on the rest.
Plan three_and_rest(const OasesCostModel& model) {
  Choice choice(32, model.tables().index_of(4));
  std::fill(choice.begin(), choice.begin() + 3, model.tables().index_of(2));
  return plan_of(model.tables(), choice);
}

Cost cost(CostKey key, std::int64_t value) {
  Cost one;
  one.key = canonical(std::move(key));
  one.statistics.add(value);
  return one;
}

}  // namespace

TEST_CASE("a plan's price, its parts and its picture say the same", "[oases]") {
  const OasesCostModel model = llama();
  const Plan plan = three_and_rest(model);
  REQUIRE(validate(plan, model.model(), model.cluster()).empty());
  REQUIRE(model.unpriced(plan).empty());
  const Prediction prediction = model.evaluate(plan);
  CHECK(prediction.feasible);
  CHECK(prediction.iteration_ms == Approx(1262.965).epsilon(1e-5));
  const StagePrediction& stage = prediction.stages.front();
  CHECK(stage.forward_ms + stage.recompute_ms + stage.backward_ms + stage.exposed_communication_ms ==
        Approx(prediction.iteration_ms).epsilon(1e-12));
  CHECK(stage.memory.states + stage.memory.activations + stage.memory.reserved == stage.memory_bytes);
  CHECK(stage.memory_bytes == Approx(23924624576.0).margin(8192));
  double end = 0;
  double computing = 0;
  for (const TimelineEvent& event : model.timeline(plan)) {
    REQUIRE(event.end_ms >= event.begin_ms);
    end = std::max(end, event.end_ms);
    if (event.kind != EventKind::kTransfer) computing += event.end_ms - event.begin_ms;
  }
  CHECK(end == Approx(prediction.iteration_ms).epsilon(1e-12));
  CHECK(computing == Approx(stage.forward_ms + stage.recompute_ms + stage.backward_ms).epsilon(1e-12));
}

TEST_CASE("the inner loop prices what evaluate prices", "[oases]") {
  for (const OasesVariant variant : {OasesVariant::kPaper, OasesVariant::kPublished}) {
    const OasesCostModel model = llama(variant);
    const PlanSpace space = named_space("oases", model.model(), model.cluster(), Knobs{}, 32).value();
    const auto evaluator = model.evaluator(space);
    Candidate candidate;
    candidate.microbatch = 32;
    CandidateStage& stage = candidate.stages.emplace_back();
    stage.end = stage.devices = 32;
    stage.segments = {{3, {16, 2}}, {20, {8, 4}}, {32, {4, 8}}};
    stage.split = stage.segments.front().split;
    const Plan plan = evaluator->plan(candidate);
    CHECK(plan.schedule == overlapped_schedule());
    const Prediction prediction = model.evaluate(plan);
    const Score score = evaluator->price(candidate);
    CHECK(score.priced);
    CHECK(score.ms == Approx(prediction.iteration_ms).epsilon(1e-12));
    CHECK(score.fits() == prediction.feasible);
    CHECK(evaluator->stage(candidate, 0).memory_bytes == static_cast<double>(prediction.stages[0].memory_bytes));
    stage.segments = {{20, {8, 4}}, {32, {32, 1}}};  // tp 1 is not measured
    CHECK_FALSE(evaluator->price(candidate).priced);
    candidate.stages.front().devices = 16;
    CHECK_FALSE(evaluator->price(candidate).priced);
  }
}

TEST_CASE("knobs that the model does not price are refused by name", "[oases]") {
  const OasesCostModel model = llama();
  const auto names = [&model](const auto& change) {
    Plan plan = three_and_rest(model);
    change(plan);
    const std::vector<std::string> all = model.unpriced(plan);
    std::string text;
    for (const std::string& name : all) text += name + "\n";
    return text;
  };
  using Catch::Contains;
  CHECK_THAT(names([](Plan& plan) { plan.schedule.sub_batches = 1; }), Contains("schedule.sub_batches (only 2"));
  CHECK_THAT(names([](Plan& plan) { plan.schedule.cross_pass = false; }), Contains("schedule.cross_pass"));
  CHECK_THAT(names([](Plan& plan) { plan.schedule.recompute_after_communication = false; }),
             Contains("schedule.recompute_after_communication"));
  CHECK_THAT(names([](Plan& plan) { plan.schedule.kind = ScheduleKind::kGPipe; }), Contains("schedule.kind"));
  CHECK_THAT(names([](Plan& plan) { plan.schedule.sliced_microbatches = 1; }), Contains("sliced_microbatches"));
  CHECK_THAT(names([](Plan& plan) { plan.microbatch = 16; }), Contains("microbatch (only the global batch"));
  CHECK_THAT(names([](Plan& plan) { plan.stages.push_back(plan.stages[0]); }), Contains("stages (only one"));
  CHECK_THAT(names([](Plan& plan) { plan.stages[0].devices.pop_back(); }), Contains("stages[0].devices"));
  CHECK_THAT(names([](Plan& plan) { plan.stages[0].segments[1].recompute.clear(); }),
             Contains("stages[0].segments[1].recompute"));
  CHECK_THAT(names([](Plan& plan) { plan.stages[0].segments[0].sharded = ShardedLevel::kOptimizer; }),
             Contains("stages[0].segments[0].sharded"));
  CHECK_THAT(names([](Plan& plan) { plan.stages[0].segments[0].switches.offload_optimizer = true; }),
             Contains("stages[0].segments[0].switches"));
  CHECK_THAT(names([](Plan& plan) { plan.stages[0].segments[0].cp = 2; }), Contains("stages[0].segments[0].cp"));
  CHECK(names([](Plan&) {}).empty());
}

TEST_CASE("a plan over the memory is priced, and says by how much", "[oases]") {
  const OasesCostModel model = llama();
  const Prediction prediction = model.evaluate(plan_of(model.tables(), Choice(32, model.tables().index_of(2))));
  CHECK_FALSE(prediction.feasible);
  CHECK(prediction.iteration_ms > 0);
  CHECK(prediction.bottleneck.resource == "memory");
  CHECK_THAT(prediction.infeasible_reason, Catch::Contains("too much"));
}

TEST_CASE("a degree without costs is missing by name, a world without any is refused", "[oases]") {
  const OasesCostModel model = llama();
  Plan plan = three_and_rest(model);
  plan.stages[0].segments[0].tp = 1;
  plan.stages[0].segments[0].dp = 32;
  const Prediction prediction = model.evaluate(plan);
  REQUIRE(prediction.missing_costs.size() == 1);
  CHECK_THAT(prediction.missing_costs[0], Catch::Contains("tp 1") && Catch::Contains("2, 4, 8, 16, 32"));
  CHECK(model.timeline(plan).empty());

  test::World world = test::world(kLlama);
  const auto refused = [](const test::World& of) {
    const auto built = OasesCostModel::build(OasesVariant::kPaper, of.model, of.cluster, of.costs);
    REQUIRE_FALSE(built.ok());
    return built.error().message;
  };
  test::World bare = world;
  std::erase_if(bare.costs, [](const Cost& of) { return of.key.kind == CostKind::kCollective; });
  CHECK_THAT(refused(bare), Catch::Contains("collective all_reduce") && Catch::Contains("group_size=4"));
  test::World split = world;
  split.model.microbatch_total = {8};
  CHECK_THAT(refused(split), Catch::Contains("whole batch") && Catch::Contains("32"));
  test::World odd = world;
  odd.model.global_batch = 33;
  odd.model.microbatch_total.clear();
  CHECK_THAT(refused(odd), Catch::Contains("even number of samples"));
}

TEST_CASE("measured slowdowns of overlap make the paper's model slower, and leave the published one alone", "[oases]") {
  test::World world = test::world(kLlama);
  const OasesCostModel plain = llama();
  const Plan plan = three_and_rest(plain);
  for (const auto& [kind, ppm] :
       {std::pair{CostKind::kOverlapComputation, 1200000}, std::pair{CostKind::kOverlapCommunication, 1300000}}) {
    world.costs.push_back(cost({kind, "all_reduce", "float32", 0, 1, "default", 1 << 24, 4, "intra_node"}, ppm));
  }
  const auto build = [&world](OasesVariant variant) {
    return OasesCostModel::build(variant, world.model, world.cluster, world.costs).value();
  };
  const OasesCostModel slowed = build(OasesVariant::kPaper);
  CHECK(slowed.tables().chain.slowdown.computation == Approx(1.2));
  CHECK(slowed.tables().chain.slowdown.communication == Approx(1.3));
  const double ms = slowed.evaluate(plan).iteration_ms;
  CHECK(ms > plain.evaluate(plan).iteration_ms * 1.02);
  double end = 0;
  for (const TimelineEvent& event : slowed.timeline(plan)) end = std::max(end, event.end_ms);
  CHECK(end == Approx(ms).epsilon(1e-12));
  CHECK(build(OasesVariant::kPublished).evaluate(plan).iteration_ms ==
        llama(OasesVariant::kPublished).evaluate(plan).iteration_ms);
}

}  // namespace trimtab::tuner::oases
