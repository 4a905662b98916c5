#include "tuner/calibration.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tuner/cost_model.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

struct Truth {
  double computation = 1;
  double communication = 1;
  double fixed_ms = 0;
};

Prediction prediction_of(double computation_ms, double communication_ms, double fixed_ms) {
  Prediction prediction;
  prediction.computation_share_ms = computation_ms;
  prediction.communication_share_ms = prediction.communication_shares.gradients = communication_ms;
  prediction.iteration_ms = computation_ms + communication_ms + fixed_ms;
  return prediction;
}

double true_ms(const Truth& truth, const Prediction& prediction) {
  const double fixed = prediction.iteration_ms - prediction.computation_share_ms - prediction.communication_share_ms;
  return truth.computation * prediction.computation_share_ms + truth.communication * prediction.communication_share_ms +
         fixed + truth.fixed_ms;
}

TEST_CASE("a prediction that lacks costs teaches no factor") {
  Observation whole;
  whole.prediction = prediction_of(80, 20, 0);
  whole.measured_ms = 110;
  whole.measured_sigma_ms = 0.1;
  Observation lacking = whole;
  lacking.prediction = prediction_of(10, 1, 0);
  lacking.prediction.stages.resize(1);
  lacking.prediction.stages[0].memory.activations = 1 << 20;
  lacking.prediction.stages[0].memory_bytes = 1 << 20;
  lacking.measured_memory_bytes = {8 << 20};
  lacking.prediction.missing_costs = {"operator attention, tp 2"};
  const Calibration alone = calibrate({whole});
  const Calibration both = calibrate({whole, lacking});
  CHECK(both.observations == 1);
  CHECK(both.computation.value == alone.computation.value);
  CHECK(both.memory.value == alone.memory.value);
  CHECK(calibrate({lacking}).observations == 0);
  CHECK(calibrate({lacking}).computation.value == 1);
}

// What the cost model makes of the calibration: mean and standard deviation.
struct Interval {
  double mean = 0;
  double sigma = 0;
};

Interval calibrated(const Calibration& calibration, const Prediction& prediction) {
  const double a = calibration.computation.value * prediction.computation_share_ms;
  const double b = calibration.moving(CommunicationClass::kGradients) * prediction.communication_share_ms;
  const double fixed = prediction.iteration_ms - prediction.computation_share_ms - prediction.communication_share_ms;
  const double mean = a + b + fixed + calibration.fixed_ms;
  const TimeSlopes slopes{a, b, 1, 0, b, 0, 0, 0};
  const double residual = calibration.residual_sigma * mean;
  return {mean, std::sqrt(covariance(calibration, slopes, slopes) + residual * residual)};
}

Prediction random_prediction(Random& random) {
  const double total = 100 * (1 + random.uniform());
  const double communication = total * 0.4 * random.uniform();
  return prediction_of(total - communication, communication, 2);
}

Observation observe(Random& random, const Truth& truth, double residual, double noise) {
  Observation seen;
  seen.prediction = random_prediction(random);
  const double mean = true_ms(truth, seen.prediction);
  seen.measured_ms = mean * (1 + residual * random.normal()) + noise * mean * random.normal();
  seen.measured_sigma_ms = noise * mean;
  return seen;
}

TEST_CASE("nothing observed leaves the default calibration") {
  const Calibration calibration = calibrate({});
  CHECK(calibration.computation.value == 1.0);
  CHECK(calibration.observations == 0);
  CHECK(calibration.computation.log_sigma == Calibration{}.computation.log_sigma);
}

TEST_CASE("noisy trials move the factors only part of the way") {
  Observation seen;
  seen.prediction = prediction_of(100, 0, 0);
  seen.measured_ms = 130;
  seen.measured_sigma_ms = 13;
  const Calibration noisy = calibrate({seen, seen, seen});
  const double moved = noisy.computation.value * 100 + noisy.fixed_ms;
  CHECK(moved > 102);
  CHECK(moved < 125);
  seen.measured_sigma_ms = 0.1;
  const Calibration sure = calibrate({seen, seen, seen});
  CHECK(sure.computation.value * 100 + sure.fixed_ms > moved);
  CHECK(sure.computation.value * 100 + sure.fixed_ms < 130);
}

TEST_CASE("what was observed is attributed to the term that it scales with") {
  const Truth truth{1.25, 0.8, 0};
  std::vector<Observation> observations;
  for (const double communication : {0.0, 10.0, 30.0, 50.0, 70.0}) {
    Observation seen;
    seen.prediction = prediction_of(100, communication, 1);
    seen.measured_ms = true_ms(truth, seen.prediction);
    observations.push_back(seen);
  }
  const Calibration calibration = calibrate(observations);
  CHECK(calibration.computation.value == Approx(1.25).epsilon(0.06));
  // Shrunk towards 1, and more than half of the way to the truth.
  CHECK(calibration.moving(CommunicationClass::kGradients) < 0.9);
  CHECK(calibration.moving(CommunicationClass::kGradients) > 0.78);
  CHECK(calibration.communication.value < 1);
  CHECK(calibration.observations == 5);
}

TEST_CASE("on hidden truths the error falls and intervals hold what they promise, over many seeds") {
  // Truths are drawn from the prior; 4 % of a step stays unexplained, measurements have 1 % noise.
  constexpr int kSeeds = 400;
  constexpr double kResidual = 0.04;
  double error_before = 0;
  double error_after = 0;
  int held = 0;
  int held_of_few = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Random random(static_cast<std::uint64_t>(1000 + seed));
    const Truth truth{std::exp(0.15 * random.normal()), std::exp(0.15 * random.normal()), 3 * random.uniform()};
    std::vector<Observation> observations;
    for (int i = 0; i < 2; ++i) observations.push_back(observe(random, truth, kResidual, 0.01));
    const Calibration few = calibrate(observations);
    for (int i = 0; i < 6; ++i) observations.push_back(observe(random, truth, kResidual, 0.01));
    const Calibration many = calibrate(observations);

    const Prediction next = random_prediction(random);
    const double mean = true_ms(truth, next);
    const double actual = mean * (1 + kResidual * random.normal());
    const auto inside = [actual](const Interval& of) { return std::abs(actual - of.mean) <= 1.96 * of.sigma; };
    error_before += std::abs(next.iteration_ms - mean) / mean / kSeeds;
    error_after += std::abs(calibrated(many, next).mean - mean) / mean / kSeeds;
    held += inside(calibrated(many, next)) ? 1 : 0;
    held_of_few += inside(calibrated(few, next)) ? 1 : 0;
  }
  INFO("mean error " << error_before << " before, " << error_after << " after; held " << held << " and " << held_of_few
                     << " of " << kSeeds);
  CHECK(error_before > 0.08);
  CHECK(error_after < 0.027);
  // 95 % within what 400 seeds can tell (about 2 %), and some caution: the residual's prior is wider than the truth.
  CHECK(held >= 0.93 * kSeeds);
  CHECK(held <= 0.995 * kSeeds);
  CHECK(held_of_few >= 0.93 * kSeeds);
}

TEST_CASE("more trials tighten the intervals, and what is not learnt stays as unsure as before") {
  constexpr int kSeeds = 20;
  std::vector<double> sigmas(4, 0.0);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Random random(seed);
    const Truth truth{1.3, 0.7, 1};
    std::vector<Observation> observations;
    for (double& sigma : sigmas) {
      for (int i = 0; i < 4; ++i) observations.push_back(observe(random, truth, 0.02, 0.01));
      const Calibration learnt = calibrate(observations);
      sigma += calibrated(learnt, prediction_of(120, 30, 2)).sigma / kSeeds;
      if (learnt.communication.value == 1)
        CHECK(learnt.communication.log_sigma == Calibration{}.communication.log_sigma);
      if (learnt.computation.value == 1) CHECK(learnt.computation.log_sigma == Calibration{}.computation.log_sigma);
    }
  }
  CHECK(sigmas[0] < calibrated({}, prediction_of(120, 30, 2)).sigma);
  for (std::size_t i = 1; i < sigmas.size(); ++i) CHECK(sigmas[i] < sigmas[i - 1]);
}

TEST_CASE("the memory factor is learnt from stages' peaks") {
  Observation seen;
  seen.prediction = prediction_of(100, 0, 0);
  seen.measured_ms = 100;
  StagePrediction stage;
  stage.memory = {1000, 500, 50, 200, 100};
  stage.memory_bytes = 1750;
  seen.prediction.stages = {stage, stage};
  // States and the process stay; activations, recompute peak and working memory are 1.3 times what was predicted.
  const double constant = 1750 - 650;
  seen.measured_memory_bytes = {constant + 1.3 * 650, constant + 1.3 * 650};
  std::vector<Observation> observations(8, seen);
  const Calibration calibration = calibrate(observations);
  CHECK(calibration.memory.value == Approx(1.3).epsilon(0.03));
  CHECK(calibration.memory.log_sigma < 0.05);
}

TEST_CASE("useless observations are ignored") {
  Observation failed;
  failed.prediction = prediction_of(100, 0, 0);
  failed.measured_ms = 0;
  Observation broken = failed;
  broken.measured_ms = std::nan("");
  CHECK(calibrate({failed, broken}).observations == 0);
}

TEST_CASE("a calibrated cost model predicts the hidden world better than an uncalibrated one") {
  Random random(17);
  const test::World world = test::random_world(random, {8, 3, 6});
  const CostTable table = world.table();
  const NativeCostModel plain(table);
  Calibration hidden;
  hidden.computation.value = 1.2;
  hidden.communication.value = 0.85;
  const NativeCostModel real(table, hidden);
  const Plan plan = usual_guess(world.model, world.cluster, Knobs{});
  Observation seen;
  seen.prediction = plain.evaluate(plan);
  seen.measured_ms = real.evaluate(plan).iteration_ms;
  seen.measured_sigma_ms = 0.001 * seen.measured_ms;
  const NativeCostModel learnt(table, calibrate(std::vector<Observation>(4, seen)));
  const double actual = seen.measured_ms;
  CHECK(std::abs(learnt.evaluate(plan).iteration_ms - actual) <
        0.25 * std::abs(plain.evaluate(plan).iteration_ms - actual));
}

TEST_CASE("a calibration survives its document") {
  Random random(2);
  std::vector<Observation> observations;
  for (int i = 0; i < 5; ++i) observations.push_back(observe(random, {1.1, 0.9, 2}, 0.03, 0.01));
  const Calibration calibration = calibrate(observations);
  const Calibration back = parse_calibration(to_json(calibration)).value();
  CHECK(back.computation.value == calibration.computation.value);
  CHECK(back.communication.log_sigma == calibration.communication.log_sigma);
  CHECK(back.memory.value == calibration.memory.value);
  CHECK(back.fixed_ms == calibration.fixed_ms);
  CHECK(back.correlations == calibration.correlations);
  CHECK(back.observations == 5);
}

TEST_CASE("a broken calibration document is refused with the field") {
  CHECK_FALSE(parse_calibration("[]").ok());
  CHECK_FALSE(parse_calibration("{").ok());
  CHECK_THAT(parse_calibration("{}").error().message, Catch::Contains("schema"));
  std::string json = to_json(Calibration{});
  const std::string::size_type at = json.find("\"communication\":{\"log_sigma\":0.12");
  REQUIRE(at != std::string::npos);
  json.replace(at, 33, "\"communication\":{\"log_sigma\":\"x\"");
  CHECK_THAT(parse_calibration(json).error().message, Catch::Contains("communication.log_sigma"));
}

}  // namespace
}  // namespace trimtab::tuner
