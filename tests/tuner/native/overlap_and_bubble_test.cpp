// Factors on the slowdown of overlap and on the bubble: what they scale, and that steps teach them.

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/search.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

// Of computing and of all-reducing at once.
void slow_down(test::World& world, double by) {
  for (const std::int32_t group : {2, 4}) {
    for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
      world.costs.push_back(test::exact_cost(test::link_key(kind, 1 << 20, group), std::llround(by * 1e6)));
    }
  }
}

// Gradients take about as long as passes, and computing beside them is 1.3 times as slow.
test::World chain() {
  std::vector<test::OperatorTruth> operators(8);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    operators[i].cost_key = i % 2 == 0 ? "even" : "odd";
    operators[i].forward_ns = i % 2 == 0 ? 1'000'000 : 1'500'000;
    operators[i].output_bytes = 20'000;
    operators[i].parameter_bytes = 20'000'000;
    operators[i].stored_bytes = 1000;
  }
  test::World world = test::make_world(operators, 4, 16, {1, 2, 4, 8, 16});
  test::add_links(world, 10'000, 500);
  return world;
}

double slope(const CostTable& table, const Plan& plan, Factor Calibration::*factor, Calibration at) {
  const double before = NativeCostModel(table, at).evaluate(plan).iteration_ms;
  (at.*factor).value *= 1 + 1e-6;
  return (NativeCostModel(table, at).evaluate(plan).iteration_ms - before) / 1e-6;
}

std::vector<Plan> plans_of(const Model& model) {
  std::vector<Plan> plans;
  for (const std::int32_t microbatch : {4, 8, 16}) {
    plans.push_back(test::make_plan(model, microbatch, {8}, {2}));
    plans.push_back(test::make_plan(model, microbatch, {8}, {4}));
    plans.push_back(test::make_plan(model, microbatch, {4, 8}, {1, 1}));
    plans.push_back(test::make_plan(model, microbatch, {3, 8}, {2, 2}));
    plans.push_back(test::make_plan(model, microbatch, {2, 4, 6, 8}, {1, 1, 1, 1}));
  }
  return plans;
}

std::vector<Observation> measured(const NativeCostModel& truth, const std::vector<Plan>& plans, Random& random) {
  std::vector<Observation> seen;
  for (const Plan& plan : plans) {
    Observation one;
    one.plan = plan;
    one.prediction = truth.evaluate(plan);
    one.measured_ms = one.prediction.iteration_ms * std::exp(0.005 * random.normal());
    one.measured_sigma_ms = 0.005 * one.measured_ms;
    for (const StagePrediction& stage : one.prediction.stages) {
      one.measured_terms.push_back(stage.terms);
      one.measured_pass_ms.push_back(plan.microbatches() * (stage.forward_ms + stage.backward_ms + stage.recompute_ms));
    }
    one.measured_pass_sigma = 0.01;
    seen.push_back(one);
  }
  return seen;
}

double mean_error(const NativeCostModel& of, const NativeCostModel& truth, const std::vector<Plan>& plans) {
  double sum = 0;
  for (const Plan& plan : plans)
    sum += std::abs(of.evaluate(plan).iteration_ms / truth.evaluate(plan).iteration_ms - 1);
  return sum / static_cast<double>(plans.size());
}

TEST_CASE("the factor of overlap scales slowdowns beyond 1, that of the bubble what the busiest stage idles") {
  test::World world = chain();
  const CostTable without = world.table(true);
  slow_down(world, 1.3);
  const CostTable table = world.table(true);
  Calibration none;
  none.overlap.value = 1e-12;
  for (const Plan& plan : plans_of(world.model)) {
    const double now = NativeCostModel(table).evaluate(plan).iteration_ms;
    const double unslowed = NativeCostModel(table, none).evaluate(plan).iteration_ms;
    CHECK(unslowed == Approx(NativeCostModel(without).evaluate(plan).iteration_ms).epsilon(1e-9));
    CHECK(unslowed <= now);
    Calibration sent_in_no_time;
    for (Factor& factor : sent_in_no_time.classes) factor.value = 1e-9;
    const NativeCostModel model(table, sent_in_no_time);
    Calibration longer = sent_in_no_time;
    longer.bubble.value = 1.5;
    double busiest = 1e300;
    const Prediction prediction = model.evaluate(plan);
    for (const StagePrediction& stage : prediction.stages) busiest = std::min(busiest, stage.bubble_ms);
    CHECK(prediction.bubble_share_ms == Approx(busiest).margin(1e-6));
    CHECK(NativeCostModel(table, longer).evaluate(plan).iteration_ms ==
          Approx(prediction.iteration_ms + 0.5 * busiest).epsilon(1e-9));
    CHECK((plan.stages.size() > 1) == (prediction.bubble_share_ms > 0));
  }
}

TEST_CASE("shares of overlap and bubble are slopes, wherever the factors stand, and terms still add up") {
  test::World world = chain();
  slow_down(world, 1.3);
  const CostTable table = world.table(true);
  for (const double bubble : {0.7, 1.0, 1.4}) {
    Calibration at;
    at.bubble.value = bubble;
    at.overlap.value = 1.2;
    for (const Plan& plan : plans_of(world.model)) {
      const Prediction prediction = NativeCostModel(table, at).evaluate(plan);
      CHECK(prediction.overlap_share_ms ==
            Approx(slope(table, plan, &Calibration::overlap, at)).epsilon(0.01).margin(0.01));
      CHECK(prediction.bubble_share_ms ==
            Approx(slope(table, plan, &Calibration::bubble, at)).epsilon(0.01).margin(0.01));
      CHECK(prediction.computation_share_ms ==
            Approx(slope(table, plan, &Calibration::computation, at)).epsilon(0.01).margin(0.01));
      CHECK(prediction.communication_share_ms ==
            Approx(slope(table, plan, &Calibration::communication, at)).epsilon(0.01).margin(0.01));
      for (const StagePrediction& stage : prediction.stages) {
        CHECK(stage.terms.total_ms() == Approx(prediction.iteration_ms));
        CHECK(stage.terms.transfers_ms >= 0);
      }
    }
  }
}

TEST_CASE("steps and waits teach the factors of overlap and of the bubble") {
  test::World world = chain();
  slow_down(world, 1.5);
  const CostTable table = world.table(true);
  const std::vector<Plan> plans = plans_of(world.model);
  constexpr int kSeeds = 10;
  double factor = 0;
  double without = 0;
  double with = 0;
  const auto learn = [&](Factor Calibration::*of, const Calibration& hidden, std::initializer_list<std::size_t> ran) {
    const NativeCostModel truth(table, hidden);
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Random random(seed);
      std::vector<Plan> tried;
      for (const std::size_t i : ran) tried.push_back(plans[i]);
      const Calibration learnt = calibrate(table, measured(truth, tried, random), {});
      factor += (learnt.*of).value / kSeeds;
      without += mean_error(NativeCostModel(table), truth, plans) / kSeeds;
      with += mean_error(NativeCostModel(table, learnt), truth, plans) / kSeeds;
    }
  };
  Calibration hidden;
  SECTION("overlap") {
    hidden.overlap.value = 1.8;
    learn(&Calibration::overlap, hidden, {5, 6, 10, 11, 2, 9});
    WARN("overlap 1.8: learnt " << factor << ", error " << without << " without, " << with << " with");
  }
  SECTION("bubble") {
    hidden.bubble.value = 1.4;
    learn(&Calibration::bubble, hidden, {0, 2, 4, 7, 9, 14});
    WARN("bubble 1.4: learnt " << factor << ", error " << without << " without, " << with << " with");
  }
  CHECK(factor > 1.15);
  CHECK(with < 0.6 * without);
}

TEST_CASE("a search under these factors finds plans of that price, and its bound stays one") {
  for (const double bubble : {0.6, 1.3}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      INFO("seed " << seed);
      Random random(seed);
      const test::World world = test::random_world(random, {5, 4, 2});
      Calibration calibration;
      calibration.bubble.value = bubble;
      calibration.overlap.value = 1.5;
      const NativeCostModel model(world.table(), calibration);
      SearchOptions options;
      options.max_evaluations = 20000;
      options.strategy = "exhaustive";
      const auto all = search(model, Knobs{}, options);
      options.strategy = "unified";
      const auto found = search(model, Knobs{}, options);
      REQUIRE(all.ok());
      REQUIRE(found.ok());
      if (all->result.plans.empty()) continue;
      const RankedPlan& best = all->result.plans.front();
      CHECK(best.prediction.iteration_ms == Approx(model.evaluate(best.plan).iteration_ms));
      CHECK(found->result.lower_bound_ms <= best.prediction.iteration_ms * (1 + 1e-9));
    }
  }
}

TEST_CASE("the factors of overlap and bubble survive the document, and a document from before them has none") {
  Calibration calibration;
  calibration.overlap = {1.4, 0.11};
  calibration.bubble = {0.8, 0.07};
  calibration.correlations.back() = -0.25;
  calibration.left_out_error = 0.02;
  calibration.left_out_error_of_costs = 0.09;
  const Calibration back = parse_calibration(to_json(calibration)).value();
  CHECK(back.overlap.value == 1.4);
  CHECK(back.bubble.log_sigma == 0.07);
  CHECK(back.correlations == calibration.correlations);
  CHECK(back.left_out_error_of_costs == 0.09);
  CHECK(aged(back).overlap.log_sigma > 0.11);
  CHECK(of_another_job(back).bubble.value == 0.8);
  nlohmann::json old = nlohmann::json::parse(to_json(calibration));
  for (const char* const field : {"overlap", "bubble", "correlations_of_overlap_and_bubble", "left_out_error"}) {
    old.erase(field);
  }
  const Calibration read = parse_calibration(old.dump()).value();
  CHECK(read.overlap.value == 1);
  CHECK(read.bubble.value == 1);
  CHECK(read.overlap.log_sigma == Calibration{}.overlap.log_sigma);
  old["overlap"] = {{"value", -1}, {"log_sigma", 0.1}};
  CHECK_THAT(parse_calibration(old.dump()).error().message, Catch::Contains("overlap.value"));
}

}  // namespace
}  // namespace trimtab::tuner
