#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

using Class = CommunicationClass;
using ClassFactors = std::array<double, kCommunicationClasses>;

constexpr double kStepNoise = 0.01;
constexpr double kTermNoise = 0.03;   // of a term
constexpr double kStepShare = 0.005;  // of the step: what any term is off by besides
constexpr int kSeeds = 40;

// A chain of which gradients and activations both take long to send; 4 devices.
test::World chain() {
  std::vector<test::OperatorTruth> operators;
  for (int i = 0; i < 12; ++i) {
    test::OperatorTruth of;
    of.cost_key = i % 2 == 0 ? "attention" : "linear";
    of.forward_ns = i % 2 == 0 ? 250'000 : 150'000;
    of.backward_ns = 2 * of.forward_ns;
    of.stored_bytes = 4000;
    of.parameter_bytes = 3'000'000;
    of.output_bytes = i % 3 == 0 ? 300'000 : 500'000;
    operators.push_back(of);
  }
  test::World world = test::make_world(operators, 4, 32, {1, 2, 4, 8, 16, 32});
  test::add_links(world, 20'000, 1'000);
  return world;
}

std::vector<Plan> all_plans(const Model& model) {
  std::vector<Plan> plans;
  for (const std::int32_t microbatch : {4, 8, 16}) {
    plans.push_back(test::make_plan(model, microbatch, {12}, {4}));
    for (const std::int32_t cut : {4, 5, 6, 7, 8}) {
      plans.push_back(test::make_plan(model, microbatch, {cut, 12}, {2, 2}));
    }
    plans.push_back(test::make_plan(model, microbatch, {3, 6, 9, 12}, {1, 1, 1, 1}));
    plans.push_back(test::make_plan(model, microbatch, {3, 6, 12}, {1, 1, 2}));
    plans.push_back(test::make_plan(model, microbatch, {6, 9, 12}, {2, 1, 1}));
  }
  return plans;
}

Calibration hidden(double computation, double common, const ClassFactors& classes) {
  Calibration truth;
  truth.computation.value = computation;
  truth.communication.value = common;
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) truth.classes[k].value = classes[k];
  return truth;
}

double noisy(double ms, double step_ms, Random& random) {
  return std::max(0.0, ms * std::exp(kTermNoise * random.normal()) + kStepShare * step_ms * random.normal());
}

StepTerms noisy(const StepTerms& terms, Random& random) {
  const double step_ms = terms.total_ms();
  StepTerms told = terms;
  for (double StepTerms::*const term :
       {&StepTerms::collectives_ms, &StepTerms::gradients_ms, &StepTerms::transfers_ms}) {
    told.*term = noisy(told.*term, step_ms, random);
  }
  return told;
}

Observation observed(const CostTable& table, const NativeCostModel& truth, const Plan& plan, Random& random) {
  const Prediction real = truth.evaluate(plan);
  Observation seen;
  seen.plan = plan;
  seen.prediction = NativeCostModel(table).evaluate(plan);
  seen.measured_ms = real.iteration_ms * std::exp(kStepNoise * random.normal());
  seen.measured_sigma_ms = kStepNoise * seen.measured_ms;
  for (const StagePrediction& stage : real.stages) {
    const double ms = plan.microbatches() * (stage.forward_ms + stage.backward_ms + stage.recompute_ms);
    seen.measured_pass_ms.push_back(ms * std::exp(0.01 * random.normal()));
    seen.measured_terms.push_back(noisy(stage.terms, random));
  }
  seen.measured_pass_sigma = 0.01;
  return seen;
}

// One of each kind: what a first round of trials tries.
std::vector<Observation> some_trials(const CostTable& table, const NativeCostModel& truth, Random& random) {
  const Model& model = table.model();
  return {observed(table, truth, test::make_plan(model, 4, {6, 12}, {2, 2}), random),
          observed(table, truth, test::make_plan(model, 8, {12}, {4}), random),
          observed(table, truth, test::make_plan(model, 4, {3, 6, 9, 12}, {1, 1, 1, 1}), random),
          observed(table, truth, test::make_plan(model, 8, {5, 12}, {2, 2}), random)};
}

std::vector<Observation> without_terms(std::vector<Observation> seen) {
  for (Observation& one : seen) one.measured_terms.clear();
  return seen;
}

// One factor for all communication: no class may differ.
Calibration one_factor() {
  Calibration prior;
  prior.communication.log_sigma = prior.computation.log_sigma;
  for (Factor& factor : prior.classes) factor.log_sigma = 1e-6;
  return prior;
}

struct Score {
  double error = 0;   // mean relative, of plans that did not run
  double regret = 0;  // how much longer than the best plan the one takes that is predicted to be the best
  double orders = 0;  // of pairs that differ by 2 %, those that are ordered as in truth
  int held = 0;       // in the 95 % interval
  int plans = 0;
};

Score score(const NativeCostModel& learnt, const NativeCostModel& truth, const std::vector<Plan>& plans) {
  struct Time {
    double predicted, real;
  };
  std::vector<Time> times;
  Score result;
  for (const Plan& plan : plans) {
    const Prediction prediction = learnt.evaluate(plan);
    const double real = truth.evaluate(plan).iteration_ms;
    times.push_back({prediction.iteration_ms, real});
    result.error += std::abs(prediction.iteration_ms / real - 1) / static_cast<double>(plans.size());
    result.held += prediction.interval_low_ms <= real && real <= prediction.interval_high_ms ? 1 : 0;
    ++result.plans;
  }
  int pairs = 0;
  int right = 0;
  for (const Time& a : times) {
    for (const Time& b : times) {
      if (a.real * 1.02 > b.real) continue;
      ++pairs;
      right += a.predicted < b.predicted ? 1 : 0;
    }
  }
  result.orders = static_cast<double>(right) / std::max(pairs, 1);
  const Time chosen = *std::ranges::min_element(times, {}, &Time::predicted);
  result.regret = chosen.real / std::ranges::min_element(times, {}, &Time::real)->real - 1;
  return result;
}

void add(const Score& one, Score& sum) {
  sum.error += one.error / kSeeds;
  sum.regret += one.regret / kSeeds;
  sum.orders += one.orders / kSeeds;
  sum.held += one.held;
  sum.plans += one.plans;
}

std::string text(const Score& of) {
  return "error " + std::to_string(of.error) + ", regret " + std::to_string(of.regret) + ", ordered " +
         std::to_string(of.orders) + ", held " + std::to_string(of.held) + " of " + std::to_string(of.plans);
}

TEST_CASE("a stage's terms add up to the step, and hold what its rank waits for", "[calibration]") {
  const test::World world = chain();
  const NativeCostModel model(world.table(true));
  for (const Plan& plan : all_plans(world.model)) {
    const Prediction prediction = model.evaluate(plan);
    for (const StagePrediction& stage : prediction.stages) {
      CHECK(stage.terms.total_ms() == Approx(prediction.iteration_ms));
      CHECK(stage.terms.transfers_ms + 1e-9 >=
            plan.microbatches() * stage.exposed_communication_ms);  // with the bubbles between passes
    }
    const CommunicationShares& shares = prediction.communication_shares;
    CHECK(shares.collectives + shares.gradients + shares.transfers ==
          Approx(prediction.communication_share_ms).margin(1e-3));
  }
}

TEST_CASE("each class's share of a step is its slope by the class's factor", "[calibration]") {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const Plan plan = test::make_plan(world.model, 4, {6, 12}, {2, 2});
  const Prediction now = NativeCostModel(table).evaluate(plan);
  const ClassFactors shares{now.communication_shares.collectives, now.communication_shares.gradients,
                            now.communication_shares.transfers};
  CHECK(now.communication_shares.gradients > 1);
  CHECK(now.communication_shares.transfers > 1);
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    Calibration slower;
    slower.classes[k].value = 1 + 1e-6;
    const double after = NativeCostModel(table, slower).evaluate(plan).iteration_ms;
    CHECK((after - now.iteration_ms) / 1e-6 == Approx(shares[k]).epsilon(1e-3).margin(1e-3));
  }
}

TEST_CASE("what stages waited for tells classes of communication apart, and ranks plans better than one factor",
          "[calibration]") {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const std::vector<Plan> plans = all_plans(world.model);
  const NativeCostModel truth(table, hidden(1.1, 1, {1, 0.7, 1.6}));
  Score by_class;
  Score by_one;
  double gradients = 0;
  double transfers = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const std::vector<Observation> seen = some_trials(table, truth, random);
    const Calibration learnt = calibrate(table, seen, {});
    gradients += learnt.moving(Class::kGradients) / kSeeds;
    transfers += learnt.moving(Class::kTransfers) / kSeeds;
    add(score(NativeCostModel(table, learnt), truth, plans), by_class);
    const Calibration common = calibrate(table, without_terms(seen), one_factor());
    add(score(NativeCostModel(table, common), truth, plans), by_one);
  }
  WARN("gradients " << gradients << ", transfers " << transfers << "\nby class: " << text(by_class)
                    << "\nby one factor: " << text(by_one));
  CHECK(gradients == Approx(0.7).epsilon(0.1));
  CHECK(transfers > 1.35);  // three standard deviations of what is thought likely: shrunk
  CHECK(transfers < 1.65);
  CHECK(by_class.error < 0.5 * by_one.error);
  CHECK(by_class.orders > by_one.orders);
  CHECK(by_class.regret <= by_one.regret);
  CHECK(by_class.held >= 0.93 * by_class.plans);
}

// Truths as the prior has them, and step times alone.
void compare_by_steps_alone(double common_sigma, double class_sigma, Score& by_class, Score& by_one) {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const std::vector<Plan> plans = all_plans(world.model);
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Random random(static_cast<std::uint64_t>(1000 + seed));
    const double computation = std::exp(0.15 * random.normal());
    const double common = std::exp(common_sigma * random.normal());
    ClassFactors classes{};
    for (double& factor : classes) factor = std::exp(class_sigma * random.normal());
    const NativeCostModel truth(table, hidden(computation, common, classes));
    const std::vector<Observation> seen = without_terms(some_trials(table, truth, random));
    add(score(NativeCostModel(table, calibrate(table, seen, {})), truth, plans), by_class);
    add(score(NativeCostModel(table, calibrate(table, seen, one_factor())), truth, plans), by_one);
  }
}

TEST_CASE("where step times alone are known, factors of classes do no harm", "[calibration]") {
  Score by_class;
  Score by_one;
  SECTION("and all communication is wrong alike") {
    compare_by_steps_alone(0.15, 0, by_class, by_one);
    WARN("alike: by class: " << text(by_class) << "\nby one factor: " << text(by_one));
    CHECK(by_class.error < 1.15 * by_one.error);
  }
  SECTION("and classes differ") {
    compare_by_steps_alone(0.12, 0.09, by_class, by_one);
    WARN("apart: by class: " << text(by_class) << "\nby one factor: " << text(by_one));
    CHECK(by_class.error < 1.05 * by_one.error);
  }
  CHECK(by_class.regret < by_one.regret + 0.005);
  CHECK(by_class.held >= 0.93 * by_class.plans);
}

TEST_CASE("a class that no plan used stays at the common factor", "[calibration]") {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const NativeCostModel truth(table, hidden(1, 1.3, {1, 1, 1}));
  Random random(3);
  const std::vector<Observation> seen{observed(table, truth, test::make_plan(world.model, 8, {12}, {4}), random),
                                      observed(table, truth, test::make_plan(world.model, 4, {12}, {4}), random),
                                      observed(table, truth, test::make_plan(world.model, 16, {12}, {4}), random)};
  const Calibration learnt = calibrate(table, seen, {});
  CHECK(learnt.moving(Class::kGradients) > 1.15);
  CHECK(learnt.classes[static_cast<std::size_t>(Class::kTransfers)].value == Approx(1).epsilon(1e-6));
  CHECK(learnt.moving(Class::kTransfers) == Approx(learnt.communication.value));
  CHECK(learnt.communication.value > 1.05);
  CHECK(log_sigma(learnt, Class::kTransfers) >= log_sigma(learnt, Class::kGradients));
  CHECK(log_sigma(learnt, Class::kTransfers) <= log_sigma({}, Class::kTransfers));
}

TEST_CASE("a stage's waits that are far off do not decide, and terms of nothing teach nothing", "[calibration]") {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const NativeCostModel truth(table, hidden(1, 1, {1, 1, 1}));
  Random random(5);
  const std::vector<Observation> good = some_trials(table, truth, random);
  std::vector<Observation> spoilt = good;
  spoilt[0].measured_terms[0].gradients_ms += 0.5 * spoilt[0].measured_ms;
  const double moved = calibrate(table, spoilt, {}).moving(Class::kGradients);
  CHECK(moved > 0.97 * calibrate(table, good, {}).moving(Class::kGradients));
  CHECK(moved < 1.12);
  std::vector<Observation> untold = good;
  for (Observation& one : untold) one.measured_terms.assign(one.plan.stages.size(), {});
  CHECK(to_json(calibrate(table, untold, {})) == to_json(calibrate(table, without_terms(good), {})));
}

TEST_CASE("factors of classes survive the document, and a document from before them is read", "[calibration]") {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const NativeCostModel truth(table, hidden(1.1, 1, {1, 0.7, 1.6}));
  Random random(7);
  const Calibration learnt = calibrate(table, some_trials(table, truth, random), {});
  const Calibration back = parse_calibration(to_json(learnt)).value();
  CHECK(back.correlations == learnt.correlations);
  for (std::size_t k = 0; k < kCommunicationClasses; ++k) {
    CHECK(back.classes[k].value == learnt.classes[k].value);
    CHECK(back.classes[k].log_sigma == learnt.classes[k].log_sigma);
    CHECK(aged(back).classes[k].log_sigma > learnt.classes[k].log_sigma);
    CHECK(of_another_job(back).classes[k].value == learnt.classes[k].value);
    CHECK(of_another_job(back).classes[k].log_sigma <= Calibration{}.classes[k].log_sigma);
  }
  const Calibration old =
      parse_calibration(
          R"({"schema":"trimtab.calibration/1","computation":{"value":1.1,"log_sigma":0.02},)"
          R"("communication":{"value":1.3,"log_sigma":0.05},"memory":{"value":1,"log_sigma":0.1},"fixed_ms":2,)"
          R"("fixed_sigma_ms":1,"correlation_computation_communication":-0.5,"correlation_computation_fixed":-0.25,)"
          R"("correlation_communication_fixed":0.125,"residual_sigma":0.03,"observations":4})")
          .value();
  for (const Class of : {Class::kCollectives, Class::kGradients, Class::kTransfers}) CHECK(old.moving(of) == 1.3);
  for (const Class of : {Class::kCollectives, Class::kGradients, Class::kTransfers}) {
    CHECK(log_sigma(old, of) == Approx(0.05));
  }
  CHECK(old.correlations[1] == -0.25);
  CHECK(old.correlations[2] == 0.125);
  CHECK(old.correlations[3] == 0);
  nlohmann::json broken = nlohmann::json::parse(to_json(learnt));
  for (const nlohmann::json& bad : {nlohmann::json(7), nlohmann::json("x"), nlohmann::json(-1.1)}) {
    broken["correlations_of_classes"][4] = bad;
    CHECK_THAT(parse_calibration(broken.dump()).error().message, Catch::Contains("correlations_of_classes"));
  }
}

TEST_CASE("an earlier job's factors of classes are a little less sure, and what hangs together stays known",
          "[calibration]") {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const NativeCostModel truth(table, hidden(1.1, 1, {1, 0.7, 1.6}));
  Random random(11);
  const std::vector<Observation> seen = some_trials(table, truth, random);
  const Calibration learnt = calibrate(table, seen, {});
  CHECK(learnt.communication.log_sigma > 2 * log_sigma(learnt, Class::kGradients));  // of their product more is known
  for (const Class of : {Class::kGradients, Class::kTransfers}) {
    CHECK(log_sigma(aged(learnt), of) > log_sigma(learnt, of));
    CHECK(log_sigma(aged(learnt), of) <= std::hypot(log_sigma(learnt, of), 0.0501));
    CHECK(log_sigma(aged(learnt, 0, 0.3), of) > 0.3);  // a link of that class may have changed
  }
  // However many jobs follow that use one class alone, the others are no less sure than where nothing is known.
  Calibration job = learnt;
  for (int i = 0; i < 100; ++i) job = aged(calibrate(table, without_terms(seen), job));
  for (const Class of : {Class::kCollectives, Class::kGradients, Class::kTransfers}) {
    CHECK(log_sigma(job, of) <= log_sigma({}, of) + 0.05);
  }
  // Said again it is believed the more, where that foretells better.
  const Calibration again = calibrate(table, seen, aged(learnt));
  CHECK(again.moving(Class::kTransfers) >= learnt.moving(Class::kTransfers));
  CHECK(again.moving(Class::kTransfers) < 1.65);
  CHECK(calibrate(table, {}, aged(learnt)).moving(Class::kTransfers) == learnt.moving(Class::kTransfers));
  // Correlations that no covariance has are not believed.
  Calibration impossible = aged(learnt);
  impossible.correlations.fill(-1);
  CHECK(calibrate(table, seen, impossible).moving(Class::kTransfers) ==
        Approx(again.moving(Class::kTransfers)).epsilon(0.05));
}

TEST_CASE("what cannot be of the measured step, and what nobody marks, teaches nothing", "[calibration]") {
  const test::World world = chain();
  const CostTable table = world.table(true);
  const NativeCostModel truth(table, hidden(1, 1, {1, 1, 1}));
  Random random(13);
  const std::vector<Observation> good = some_trials(table, truth, random);
  const auto learnt_with = [&](const std::function<void(StepTerms&)>& change) {
    std::vector<Observation> seen = good;
    for (Observation& one : seen) std::ranges::for_each(one.measured_terms, change);
    return to_json(calibrate(table, seen, {}));
  };
  const std::string untold = to_json(calibrate(table, without_terms(good), {}));
  CHECK(learnt_with([](StepTerms& terms) { terms = terms * 1e-8; }) == untold);
  CHECK(learnt_with([](StepTerms& terms) { terms.idle_ms += terms.total_ms(); }) == untold);
  CHECK(learnt_with([](StepTerms& terms) { terms.gradients_ms = std::nan(""); }) == untold);
  CHECK(learnt_with([](StepTerms& terms) {  // passes took longer than that
          terms.idle_ms += 0.5 * terms.computation_ms;
          terms.computation_ms *= 0.5;
        }) == untold);
  CHECK(learnt_with([](StepTerms& terms) {  // a job that marks its operators alone
          terms = {terms.computation_ms, 0, 0, 0, terms.total_ms() - terms.computation_ms};
        }) == untold);
  // Of a few stages that say what cannot be, however many rows they are, no factor runs away.
  const std::string wild = learnt_with([](StepTerms& terms) { terms.transfers_ms += 0.3 * terms.total_ms(); });
  const Calibration pulled = parse_calibration(wild).value();
  CHECK(pulled.moving(Class::kTransfers) > 0.7);
  CHECK(pulled.moving(Class::kTransfers) < 1.5);
}

}  // namespace
}  // namespace trimtab::tuner
