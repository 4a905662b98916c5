#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "base/random.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int32_t kOperators = 12;

// Blocks of an embedding's kind, attention's and a linear one's; 12 operators, 4 devices.
test::World blocks() {
  std::vector<test::OperatorTruth> operators;
  for (int i = 0; i < kOperators; ++i) {
    test::OperatorTruth of;
    of.cost_key = i == 0 ? "embedding" : i % 2 == 1 ? "attention" : "linear";
    of.forward_ns = i == 0 ? 500'000 : 2'000'000;
    of.backward_ns = 2 * of.forward_ns;
    of.stored_bytes = 4000;
    of.output_bytes = 1000;
    operators.push_back(of);
  }
  test::World world = test::make_world(operators, 4, 32, {1, 2, 4, 8, 16, 32});
  test::add_links(world, 1000, 1);
  return world;
}

// What really happens: the cost model with other factors.
struct Truth {
  explicit Truth(const test::World& world) : model(world.table(), calibration()) {}
  static Calibration calibration() {
    Calibration hidden;
    hidden.computation.value = 1.3;
    hidden.memory.value = 0.8;
    hidden.operators = {{"attention", {1.15, 0}}, {"linear", {0.9, 0}}};
    return hidden;
  }
  NativeCostModel model;
};

Observation observed(const CostTable& table, const NativeCostModel& truth, const Plan& plan, double noise = 0,
                     Random* random = nullptr) {
  Observation seen;
  seen.plan = plan;
  seen.prediction = NativeCostModel(table).evaluate(plan);
  const Prediction real = truth.evaluate(plan);
  seen.measured_ms = real.iteration_ms;
  seen.measured_sigma_ms = 0.005 * seen.measured_ms;
  for (const StagePrediction& stage : real.stages) {
    const double ms = plan.microbatches() * (stage.forward_ms + stage.backward_ms + stage.recompute_ms);
    seen.measured_pass_ms.push_back(ms * (random == nullptr ? 1 : std::exp(noise * random->normal())));
    seen.measured_memory_bytes.push_back(static_cast<double>(stage.memory_bytes));
  }
  seen.measured_pass_sigma = std::max(noise, 0.002);
  return seen;
}

double largest_miss(const NativeCostModel& a, const NativeCostModel& b, const Plan& plan) {
  const Prediction first = a.evaluate(plan);
  const Prediction second = b.evaluate(plan);
  double miss = 0;
  for (std::size_t s = 0; s < first.stages.size(); ++s) {
    const auto each = [](const StagePrediction& of) { return of.forward_ms + of.backward_ms + of.recompute_ms; };
    miss = std::max(miss, std::abs(each(first.stages[s]) / each(second.stages[s]) - 1));
  }
  return miss;
}

TEST_CASE("stages' pass times say which operators take longer, so that stages of other cuts are foreseen",
          "[calibration]") {
  const test::World world = blocks();
  const CostTable table = world.table();
  const Truth truth(world);
  const std::vector<Observation> seen{observed(table, truth.model, test::make_plan(world.model, 4, {2, 12}, {2, 2})),
                                      observed(table, truth.model, test::make_plan(world.model, 4, {6, 12}, {2, 2}))};
  const Calibration learnt = calibrate(table, seen, {});
  const double apart = learnt.operators.at("attention").value / learnt.operators.at("linear").value;
  CHECK(apart > 1.1);
  CHECK(apart < 1.35);
  const Plan other = test::make_plan(world.model, 4, {3, 12}, {2, 2}, {{{1, 3}}, {}});
  Calibration common = learnt;
  common.operators.clear();
  CHECK(largest_miss(NativeCostModel(table, learnt), truth.model, other) < 0.02);
  CHECK(largest_miss(NativeCostModel(table, common), truth.model, other) > 0.03);
}

TEST_CASE("noisy pass times still bring predictions closer", "[calibration]") {
  const test::World world = blocks();
  const CostTable table = world.table();
  const Truth truth(world);
  const Plan other = test::make_plan(world.model, 4, {3, 12}, {2, 2});
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    std::vector<Observation> seen;
    for (const std::int32_t cut : {2, 5, 6, 8}) {
      seen.push_back(observed(table, truth.model, test::make_plan(world.model, 4, {cut, 12}, {2, 2}), 0.01, &random));
    }
    sum += largest_miss(NativeCostModel(table, calibrate(table, seen, {})), truth.model, other);
  }
  CHECK(sum / 20 < 0.02);
}

TEST_CASE("a pass time that is far off does not decide", "[calibration]") {
  const test::World world = blocks();
  const CostTable table = world.table();
  const Truth truth(world);
  std::vector<Observation> seen;
  for (const std::int32_t cut : {2, 5, 6, 8}) {
    seen.push_back(observed(table, truth.model, test::make_plan(world.model, 4, {cut, 12}, {2, 2})));
  }
  seen.back().measured_pass_ms[0] *= 3;
  const Calibration learnt = calibrate(table, seen, {});
  const Plan other = test::make_plan(world.model, 4, {3, 12}, {2, 2});
  CHECK(largest_miss(NativeCostModel(table, learnt), truth.model, other) < 0.1);
}

TEST_CASE("passes that are no simple sums teach nothing of operators", "[calibration]") {
  const test::World world = blocks();
  const CostTable table = world.table();
  const Truth truth(world);
  Observation seen = observed(table, truth.model, test::make_plan(world.model, 4, {6, 12}, {2, 2}));
  const Observation other = observed(table, truth.model, test::make_plan(world.model, 4, {2, 12}, {2, 2}));
  CHECK_FALSE(calibrate(table, {other, seen}, {}).operators.empty());
  CHECK(calibrate(table, {seen}, {}).operators.empty());  // nothing is left to hold it against
  Observation sliced = seen;
  sliced.plan.schedule.sliced_microbatches = 1;
  CHECK(calibrate(table, {other, sliced}, {}).operators.empty());
  Observation untold = seen;
  untold.measured_pass_ms = {0, 0};
  CHECK(calibrate(table, {other, untold}, {}).operators.empty());
}

TEST_CASE("the memory factor is of what was measured: a stage that recomputes all does not hide it", "[calibration]") {
  const test::World world = blocks();
  const CostTable table = world.table();
  const Truth truth(world);
  const Plan all = test::make_plan(world.model, 4, {6, 12}, {2, 2}, {{{0, 6}}, {{6, 12}}});
  const Calibration learnt = calibrate(table, {observed(table, truth.model, all)}, {});
  const Plan none = test::make_plan(world.model, 4, {6, 12}, {2, 2});
  const auto peak = [&](const NativeCostModel& model) {
    return static_cast<double>(model.evaluate(none).stages[0].memory_bytes);
  };
  CHECK(peak(NativeCostModel(table, learnt)) == Approx(peak(truth.model)).epsilon(0.03));
}

TEST_CASE("operators' factors survive the document, and are a less sure prior once aged", "[calibration]") {
  Calibration calibration;
  calibration.operators = {{"attention \"x\"", {1.25, 0.03}}};
  calibration.memory_sigma = 0.004;
  const Calibration back = parse_calibration(to_json(calibration)).value();
  CHECK(back.operators.at("attention \"x\"").value == 1.25);
  CHECK(back.memory_sigma == 0.004);
  CHECK(aged(back).operators.at("attention \"x\"").log_sigma > 0.03);
  std::string json = to_json(calibration);
  const std::string::size_type at = json.find("\"operators\":{");
  REQUIRE(at != std::string::npos);
  CHECK_FALSE(parse_calibration(json.replace(at, 13, "\"operators\":{\"y\":3,")).ok());
}

TEST_CASE("another job's factors are a prior that is less sure than an own one's, and never than none",
          "[calibration]") {
  Calibration learnt;
  learnt.computation = {1.2, 0.01};
  learnt.communication = {0.8, 0.14};
  learnt.fixed_ms = 3;
  learnt.observations = 5;
  learnt.operators = {{"attention", {1.25, 0.03}}};
  const Calibration prior = of_another_job(learnt);
  CHECK(prior.computation.value == 1.2);
  CHECK(prior.computation.log_sigma > aged(learnt).computation.log_sigma);
  CHECK(prior.communication.value == 0.8);
  CHECK(prior.communication.log_sigma == Calibration{}.communication.log_sigma);
  CHECK(prior.operators.empty());
  CHECK(prior.fixed_ms == 0);
  CHECK(prior.observations == 0);
}

TEST_CASE("a calibrated model on another cluster keeps its operators' factors once", "[calibration]") {
  const test::World world = blocks();
  const Truth truth(world);
  const Plan plan = test::make_plan(world.model, 4, {6, 12}, {2, 2});
  CHECK(truth.model.on(world.cluster)->evaluate(plan).iteration_ms == truth.model.evaluate(plan).iteration_ms);
}

}  // namespace
}  // namespace trimtab::tuner
