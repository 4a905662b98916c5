// Calibration does no harm: a factor is applied where it foretells steps that it was not fitted to.

#include "native/calibration/left_out.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

// A recorded step: by the costs alone, as it was measured, and the 95 % interval of that.
struct Recorded {
  double predicted = 0;
  double measured = 0;
  double low = 0;
  double high = 0;
};

Observation of_step(double computing, double communicating, double measured, double sigma) {
  Observation seen;
  seen.prediction.iteration_ms = computing + communicating;
  seen.prediction.computation_share_ms = computing;
  seen.prediction.communication_share_ms = seen.prediction.communication_shares.gradients = communicating;
  seen.measured_ms = measured;
  seen.measured_sigma_ms = sigma;
  return seen;
}

Observation of(const Recorded& one) {
  return of_step(one.predicted, 0, one.measured, (one.high - one.low) / 2 / 1.96);
}

double predicted(const Calibration& calibration, const Prediction& prediction) {
  return calibration.computation.value * prediction.computation_share_ms +
         calibration.moving(CommunicationClass::kGradients) * prediction.communication_share_ms + calibration.fixed_ms;
}

struct Score {
  double without = 0;
  double with = 0;
};

// Each plan but the first as trials find it: predicted by what the ones before it have taught.
Score as_trials_find_them(const std::vector<Recorded>& steps) {
  Score score;
  std::vector<Observation> seen{of(steps[0])};
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const Observation next = of(steps[i]);
    const auto share = static_cast<double>(steps.size() - 1);
    score.without += std::abs(next.prediction.iteration_ms / next.measured_ms - 1) / share;
    score.with += std::abs(predicted(calibrate(seen), next.prediction) / next.measured_ms - 1) / share;
    seen.push_back(next);
  }
  return score;
}

TEST_CASE("errors fall by more than chance, or they do not") {
  CHECK_FALSE(falls({}, {}, 0.05));
  CHECK_FALSE(falls({0.3}, {0.0}, 0.001));  // one measurement leaves nothing to hold it against
  CHECK(falls({0.2, 0.2}, {0.02, 0.03}, 0.05));
  CHECK_FALSE(falls({0.05, 0.04}, {0.03, 0.02}, 0.05));  // as much as noise makes
  CHECK(falls({0.05, 0.04}, {0.03, 0.02}, 0.005));
  CHECK_FALSE(falls({0.2, 0.2}, {0.2, 0.2}, 0));
  CHECK_FALSE(falls({0.3, 0.02, 0.02}, {0.02, 0.1, 0.1}, 0.01));  // one alone decides
  CHECK_FALSE(falls({0.1, 0.1}, {0.2, 0.2}, 0.01));
}

// examples/gpt-gpu/report.html: calibrated by the first plan, whose launches are as long as its kernels, the second was
// 32 % off.
TEST_CASE("the plans of the reference trainer on a GPU are foretold no worse than by the costs alone") {
  const Score score = as_trials_find_them({{471, 333, 301, 369}, {60.4, 57.1, 45.2, 72.2}, {68.2, 58.0, 54.4, 61.8}});
  CHECK(score.without == Approx(0.117).margin(0.001));
  CHECK(score.with <= score.without);
}

// examples/netns/tuned.html: 4.7 % off by the costs, 7.5 % with a factor from the first plan.
TEST_CASE("the plans over shaped links are foretold no worse than by the costs alone") {
  const Score score = as_trials_find_them({{1159, 1355, 1285, 1429},
                                           {944, 974, 935, 1015},
                                           {1006, 1068, 1015, 1125},
                                           {1050, 1113, 1082, 1145},
                                           {1021, 1064, 1026, 1103}});
  CHECK(score.without == Approx(0.047).margin(0.001));
  CHECK(score.with <= score.without);
}

// What a plan takes: the model's time, times what this plan is off by and the noise of its measurement.
Observation drawn(Random& random, double computation, double communication, double plan, double noise) {
  const double communicating = 40 * random.uniform();
  const double computing = 100 * (1 + random.uniform()) - communicating;
  const double truth = (computation * computing + communication * communicating) * std::exp(plan * random.normal());
  return of_step(computing, communicating, truth * std::exp(noise * random.normal()), noise * truth);
}

// Over many jobs, of plans that did not run.
Score of_other_plans(int trials, double computation, double communication, double plan, double noise) {
  constexpr int kSeeds = 400;
  constexpr int kOthers = 20;
  Score score;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Random random(seed);
    std::vector<Observation> seen;
    for (int i = 0; i < trials; ++i) seen.push_back(drawn(random, computation, communication, plan, noise));
    const Calibration learnt = calibrate(seen);
    CHECK(learnt.left_out_error <= learnt.left_out_error_of_costs);
    for (int i = 0; i < kOthers; ++i) {
      const Observation other = drawn(random, computation, communication, plan, 0);
      score.without += std::abs(other.prediction.iteration_ms / other.measured_ms - 1) / (kSeeds * kOthers);
      score.with += std::abs(predicted(learnt, other.prediction) / other.measured_ms - 1) / (kSeeds * kOthers);
    }
  }
  return score;
}

TEST_CASE("noisy steps of a model that is right do not spoil it") {
  for (const int trials : {1, 2, 4, 8}) {
    for (const double noise : {0.02, 0.1, 0.3}) {
      const Score score = of_other_plans(trials, 1, 1, 0.05, noise);
      WARN(trials << " trials, noise " << noise << ": " << score.without << " without, " << score.with << " with");
      CHECK(score.with <= 1.05 * score.without);
    }
  }
}

// Each plan predicted by what all others teach.
Score without_each(const std::vector<Recorded>& steps) {
  Score score;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<Observation> others;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      if (k != i) others.push_back(of(steps[k]));
    }
    const Observation left_out = of(steps[i]);
    const auto share = static_cast<double>(steps.size());
    score.without += std::abs(left_out.prediction.iteration_ms / left_out.measured_ms - 1) / share;
    score.with += std::abs(predicted(calibrate(others), left_out.prediction) / left_out.measured_ms - 1) / share;
  }
  return score;
}

TEST_CASE("recorded plans are predicted by all others no worse than by the costs, with everything repeated") {
  const std::vector<Recorded> main_job{
      {1436.7, 1476.0, 1392.2, 1559.9}, {768.8, 815.4, 792.9, 837.9}, {833.0, 915.2, 875.0, 955.4}};
  const std::vector<Recorded> shaped{{896, 1269, 1164, 1384}, {735, 900, 783, 1035}, {809, 896, 844, 951},
                                     {810, 945, 870, 1026},   {785, 834, 805, 864},  {785, 856, 822, 891}};
  const std::vector<Recorded> shaped_before{{1159, 1355, 1285, 1429},
                                            {944, 974, 935, 1015},
                                            {1006, 1068, 1015, 1125},
                                            {1050, 1113, 1082, 1145},
                                            {1021, 1064, 1026, 1103}};
  const std::vector<Recorded> gpu{{471, 333, 301, 369}, {60.4, 57.1, 45.2, 72.2}, {68.2, 58.0, 54.4, 61.8}};
  const std::vector<Recorded> invented{{571, 618.2, 612.1, 624.3},
                                       {530.2, 611.9, 602.5, 621.3},
                                       {449.9, 489.5, 483.5, 495.5},
                                       {446.8, 455, 449.1, 460.9},
                                       {450.2, 470.3, 463.7, 476.9}};
  for (const auto& steps : {main_job, shaped, shaped_before, gpu, invented}) {
    const Score score = without_each(steps);
    CHECK(score.with <= score.without + 1e-12);
  }
  CHECK(without_each(shaped).with < 0.65 * without_each(shaped).without);
}

TEST_CASE("two plans' steps alone teach nothing: neither teaches anything that the other bears out") {
  const Calibration learnt = calibrate({of_step(100, 0, 125, 1), of_step(150, 0, 187, 1)});
  CHECK(learnt.computation.value == 1);
  CHECK(learnt.fixed_ms == 0);
  CHECK(learnt.left_out_error == learnt.left_out_error_of_costs);
  const Calibration three = calibrate({of_step(100, 0, 125, 1), of_step(150, 0, 187, 1), of_step(120, 0, 150, 1)});
  CHECK(three.computation.value == Approx(1.25).epsilon(0.02));
  CHECK(three.left_out_error < 0.1 * three.left_out_error_of_costs);
}

TEST_CASE("a model that is wrong is put right from the third plan on") {
  for (const int trials : {3, 4, 8}) {
    const Score score = of_other_plans(trials, 1.25, 1.25, 0.02, 0.01);
    WARN(trials << " trials: " << score.without << " without, " << score.with << " with");
    CHECK(score.with < 0.35 * score.without);
  }
  const Score unlike = of_other_plans(6, 1.3, 0.7, 0.02, 0.01);
  WARN("against each other: " << unlike.without << " without, " << unlike.with << " with");
  CHECK(unlike.with < 0.35 * unlike.without);
}

TEST_CASE("one measured plan teaches no factor of time, and its interval is as wide as before") {
  const Calibration learnt = calibrate({of_step(100, 20, 170, 1)});
  CHECK(learnt.computation.value == 1);
  CHECK(learnt.moving(CommunicationClass::kGradients) == 1);
  CHECK(learnt.fixed_ms == 0);
  CHECK(learnt.computation.log_sigma == Calibration{}.computation.log_sigma);
  CHECK(learnt.residual_sigma > Calibration{}.residual_sigma);  // a plan may be as far off as this one
}

struct Setting {
  test::World world;
  CostTable table;
  std::vector<Plan> plans;
};

Setting chain() {
  std::vector<test::OperatorTruth> operators(8);
  for (test::OperatorTruth& one : operators) {
    one.cost_key = "op";
    one.output_bytes = 100'000;
    one.parameter_bytes = 1'000'000;
    one.stored_bytes = 2'000'000;
  }
  test::World world = test::make_world(operators, 4, 32, {1, 2, 4, 8, 16, 32});
  test::add_links(world, 10'000, 500);
  Setting setting{world, world.table(true), {}};
  for (const std::int32_t microbatch : {4, 8}) {
    setting.plans.push_back(test::make_plan(setting.world.model, microbatch, {8}, {4}));
    setting.plans.push_back(test::make_plan(setting.world.model, microbatch, {4, 8}, {2, 2}));
    setting.plans.push_back(test::make_plan(setting.world.model, microbatch, {2, 4, 6, 8}, {1, 1, 1, 1}));
  }
  return setting;
}

Observation observed(const NativeCostModel& truth, const Plan& plan) {
  Observation seen;
  seen.plan = plan;
  seen.prediction = truth.evaluate(plan);
  seen.measured_ms = seen.prediction.iteration_ms;
  seen.measured_sigma_ms = 0.005 * seen.measured_ms;
  return seen;
}

TEST_CASE("what an earlier job learnt is kept where it still foretells steps, and dropped where it does not") {
  const Setting setting = chain();
  Calibration earlier;
  earlier.computation = {1.3, 0.03};
  earlier.operators = {{"op", {1.1, 0.02}}};
  Calibration truth = earlier;
  SECTION("it is true still: one plan is enough to see that") {
    const NativeCostModel real(setting.table, truth);
    const Calibration learnt = calibrate(setting.table, {observed(real, setting.plans[1])}, aged(earlier));
    CHECK(learnt.computation.value == Approx(1.3).epsilon(0.02));
    CHECK(learnt.operators.contains("op"));
  }
  SECTION("costs are right by now") {
    const NativeCostModel real(setting.table);
    const Calibration learnt = calibrate(setting.table, {observed(real, setting.plans[1])}, aged(earlier));
    CHECK(learnt.computation.value == 1);
    CHECK(learnt.computation.log_sigma >= Calibration{}.computation.log_sigma);
    CHECK(learnt.operators.empty());
    CHECK(learnt.left_out_error == Approx(0).margin(1e-9));
  }
  SECTION("without steps it stands") {
    CHECK(to_json(calibrate(setting.table, {}, aged(earlier))) == to_json(aged(earlier)));
  }
}

TEST_CASE("what one plan's passes say is applied where its step, which it was not fitted to, bears it out by far") {
  const Setting setting = chain();
  const NativeCostModel costs(setting.table);
  const Plan& plan = setting.plans[1];
  const auto told = [&](double step, double passes) {
    Observation seen = observed(costs, plan);
    seen.measured_ms *= step;
    for (const StagePrediction& stage : costs.evaluate(plan).stages) {
      seen.measured_pass_ms.push_back(passes * plan.microbatches() * (stage.forward_ms + stage.backward_ms));
    }
    return calibrate(setting.table, {seen}, {});
  };
  CHECK(told(1.3, 1.3).computation.value == Approx(1.3).epsilon(0.03));
  CHECK(told(1.3, 1.3).operators.empty());
  CHECK(told(1.04, 1.3).computation.value == 1);   // the step does not
  CHECK(told(0.7, 1.2).computation.value == 1);    // as where launches take longer than kernels
  CHECK(told(1.05, 1.05).computation.value == 1);  // not by far
}

TEST_CASE("a wrong memory factor of an earlier job is dropped, and one plan's stages can hold another to it") {
  const Setting setting = chain();
  const auto peaks = [&](const Calibration& truth, const Plan& plan) {
    const NativeCostModel real(setting.table, truth);
    Observation seen = observed(NativeCostModel(setting.table), plan);
    for (const StagePrediction& stage : real.evaluate(plan).stages) {
      seen.measured_memory_bytes.push_back(static_cast<double>(stage.memory_bytes));
    }
    return seen;
  };
  Calibration twice;
  twice.memory.value = 1.4;
  const Plan& pipeline = setting.plans[2];
  CHECK(calibrate(setting.table, {peaks(twice, pipeline)}, {}).memory.value > 1.2);
  CHECK(calibrate(setting.table, {peaks({}, pipeline)}, twice).memory.value == Approx(1).epsilon(0.01));
  CHECK(calibrate(setting.table, {peaks(twice, pipeline)}, twice).memory.value == Approx(1.4).epsilon(0.01));
  // One stage alone is held to nothing.
  CHECK(calibrate(setting.table, {peaks(twice, setting.plans[0])}, {}).memory.value == 1);
}

}  // namespace
}  // namespace trimtab::tuner
