#include <catch2/catch.hpp>
#include <cmath>

#include "tuning/search/choice.hpp"
#include "tuning/search/plan_likeness.hpp"
#include "tuning/state.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// Two stages of twelve operators on four devices.
Plan plan(std::int32_t cut, std::int32_t microbatch = 4, std::int32_t tp = 1, bool recompute = false) {
  Plan one;
  one.global_batch = 64;
  one.microbatch = microbatch;
  for (int s = 0; s < 2; ++s) {
    Segment segment;
    segment.operators = s == 0 ? Range{0, cut} : Range{cut, 12};
    segment.tp = tp;
    segment.dp = 2 / tp;
    if (recompute) segment.recompute = {segment.operators};
    one.stages.push_back({{2 * s, 2 * s + 1}, {segment}});
  }
  return one;
}

Prediction predicted(double ms, double communication = 0) {
  Prediction one;
  one.iteration_ms = ms;
  one.computation_share_ms = ms - communication;
  one.communication_share_ms = communication;
  return one;
}

tuner::Calibration sure() {
  tuner::Calibration one;
  one.computation.log_sigma = one.communication.log_sigma = 0;
  for (tuner::Factor& factor : one.classes) factor.log_sigma = 0;
  return one;
}

PricedPlan candidate(const std::string& name, const std::string& shape, double log_gain, double gain_sigma) {
  PricedPlan one;
  one.plan.hash = one.layout = name;
  one.shape = shape;
  one.predicted.mean_ms = 100 * std::exp(-log_gain);
  one.log_gain = log_gain;
  one.gain_sigma = gain_sigma;
  return one;
}

}  // namespace

TEST_CASE("likeness falls with every difference and is symmetric", "[likeness]") {
  CHECK(likeness(plan(6), plan(6)) == Approx(1));
  CHECK(likeness(plan(6), plan(7)) > 0.95);
  CHECK(likeness(plan(6), plan(7)) < 1);
  CHECK(likeness(plan(6), plan(6, 4, 1, true)) == Approx(0.8));
  CHECK(likeness(plan(6), plan(6, 4, 2)) == 0);
  CHECK(likeness(plan(6), plan(6, 8)) == 0);
  CHECK(likeness(plan(5), plan(8)) == likeness(plan(8), plan(5)));
}

TEST_CASE("a measured plan's surprise is expected of plans that are like it", "[likeness]") {
  // Plan 6 was measured 10 % slower than predicted, and so was nothing else.
  const Residuals known({{plan(6), predicted(100), std::log(1.1), 0.005}}, sure());
  const Gain alike = known.gain(plan(6), predicted(100), plan(7), predicted(99));
  CHECK(alike.log_ratio == Approx(std::log(100.0 / 99)).margin(0.003));
  CHECK(alike.sigma < 0.015);
  const Gain other = known.gain(plan(6), predicted(100), plan(6, 8), predicted(99));
  CHECK(other.log_ratio > 0.08);  // it need not be as slow as predicted plans of the first kind
  CHECK(other.sigma > 0.045);
}

TEST_CASE("what both plans hang on does not make their ratio unsure", "[likeness]") {
  tuner::Calibration open = sure();
  open.communication.log_sigma = 0.2;
  open.computation.log_sigma = 0.2;
  open.residual_sigma = 0;
  const Residuals known({}, open);
  CHECK(known.gain(plan(6), predicted(100, 10), plan(7), predicted(90, 9)).sigma < 1e-6);
  CHECK(known.gain(plan(6), predicted(100, 10), plan(7), predicted(100, 50)).sigma > 0.1);
}

TEST_CASE("a plan is as sure as the measured one that it is like, whatever is open of the factors", "[likeness]") {
  tuner::Calibration open = sure();
  open.communication.log_sigma = 0.2;
  const Residuals known({{plan(6), predicted(100, 10), 0, 0.003}, {plan(6, 8), predicted(100, 50), 0, 0.003}}, open);
  const Gain copy = known.gain(plan(6), predicted(100, 10), plan(7, 8), predicted(100, 50));
  CHECK(copy.sigma < 0.02);
  CHECK(known.gain(plan(6), predicted(100, 10), plan(6, 16), predicted(100, 10)).sigma > 0.04);
}

TEST_CASE("of each shape so many plans are looked at, so that one shape that is known hides no other") {
  TuningState state;
  state.incumbent_measured.mean_ms = 100;
  state.job.trials.candidates = 3;
  SearchReply reply;
  for (const char* name : {"a", "b", "c", "d"}) reply.candidates.push_back(candidate(name, "known", -0.001, 0.001));
  CHECK(optimistic_ms(state, *choose(state, reply).best) > worthwhile_ms(state));
  reply.candidates.push_back(candidate("other", "unknown", -0.02, 0.05));
  const Choice choice = choose(state, reply);
  REQUIRE(choice.best != nullptr);
  CHECK(choice.best->plan.hash == "other");
  CHECK(optimistic_ms(state, *choice.best) < worthwhile_ms(state));
}
