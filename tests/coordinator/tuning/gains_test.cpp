// What trials have measured is told with its interval, whatever ends the tuning.

#include "tuning/trial/gains.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "../fake_world.hpp"
#include "report.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

nlohmann::json report_of(const TuningState& state) {
  return nlohmann::json::parse(report_json(state, "{}", {}, {}));
}

// In the middle of a trial that is not sure yet: one pair of blocks is whole.
FakeWorld unsure_world() {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.trials.blocks = 6;
  job.steps = 4000;
  FakeWorld one(job, {{"initial", 100, 110}, {"best", 93, 80}}, 7, 0.08);
  one.faults.saves_by_itself = true;
  one.begin();
  REQUIRE(one.run([&] { return one.state().has_trial() && one.state().trials.back().measured.steps > 0; }));
  return one;
}

Trial adopted(std::int32_t id, Ratio ratio) {
  Trial trial;
  trial.id = id;
  trial.state = TrialState::kAdopted;
  trial.ratio = ratio;
  trial.measured = {600, 590, 610, 10};
  return trial;
}

TuningState tuned_state() {
  TuningState state;
  state.initial = {"initial", "initial"};
  state.incumbent = {"best", "best"};
  state.trials.push_back(adopted(1, {1.63, 1.12, 2.37}));
  return state;
}

}  // namespace

TEST_CASE("a trial that is broken off keeps the ratio that its whole pairs have measured", "[gains]") {
  FakeWorld one = unsure_world();
  const std::string end = GENERATE("stopped", "frozen", "coordinator", "node", "ended", "kill switch");
  const Ratio so_far = one.state().trials.back().ratio;
  REQUIRE(so_far.ratio != 1);
  if (end == "stopped") one.feed(Order::kStop);
  if (end == "frozen") one.feed(Order::kFreeze);
  if (end == "kill switch") one.feed(KillSwitches{{"n1"}});
  if (end == "node") one.lose_node("n1");
  if (end == "coordinator") one.restart_coordinator(false);
  if (end == "ended") {
    for (const std::int32_t rank : {0, 1}) {
      one.feed(FromRank{rank, one.state().launch, RankSaidBye{one.state().step}});
      one.feed(FromRank{rank, one.state().launch, RankExited{0, 0, ""}});
    }
  }
  INFO(end << one.history());
  const Trial& trial = one.state().trials.front();
  REQUIRE(trial.state == TrialState::kFailed);
  CHECK(trial.measured.steps > 0);
  CHECK(trial.ratio.low == so_far.low);
  CHECK(trial.ratio.high == so_far.high);
  const auto told = report_of(one.state())["trials"][0]["speedup"];
  CHECK(told["ratio"].get<double>() == Approx(so_far.ratio));
  CHECK(told["low"].get<double>() == Approx(so_far.low));
  const auto gain = told_gain(one.state());
  CHECK(gain.has_value() == (so_far.ratio > 1));
  if (gain) CHECK(gain->by == api::GainBy::kTrialNotKept);
}

TEST_CASE("of a trial whose times are in doubt nothing is told", "[gains]") {
  const auto reason =
      GENERATE(FailureReason::kClock, FailureReason::kCorruptMeasurement, FailureReason::kUnexpectedPlan);
  Trial trial = adopted(1, {1.63, 1.12, 2.37});
  forget_if_doubtful(FailureReason::kStopped, trial);
  CHECK(trial.ratio.ratio == 1.63);
  forget_if_doubtful(reason, trial);
  CHECK(trial.ratio.ratio == 1);
  CHECK(trial.measured.steps == 0);
}

TEST_CASE("a drift that ends the tuning leaves what a trial has measured in the report", "[gains]") {
  TuningState state = tuned_state();
  state.hardware.drifts.push_back({});
  const auto report = report_of(state);
  CHECK_FALSE(report["compared"].get<bool>());
  CHECK(report["gain"]["ratio"] == 1.63);
  CHECK(report["gain"]["low"].get<double>() == Approx(1.12));
  CHECK(report["gain"]["high"].get<double>() == Approx(2.37));
  CHECK(report["gain"]["by"] == "trials");
  CHECK(report["gain"]["trials"] == nlohmann::json::array({1}));
  CHECK(report["speedup"]["ratio"] == 1.63);
}

TEST_CASE("what was gained before the machine changed is told until then, where tuning again keeps its plan",
          "[gains]") {
  TuningState state = tuned_state();
  Drift drift;
  drift.since_step = 478;
  drift.trials_before = 1;
  drift.gained_before = {1.63, 1.12, 2.37};
  drift.gained_in = {1};
  state.hardware.drifts.push_back(drift);
  state.hardware.retune_wait = 500;
  state.trials_before_tuning = 1;
  state.retuned_from.plan = state.incumbent;
  const auto gain = report_of(state)["gain"];
  CHECK(gain["ratio"] == 1.63);
  CHECK(gain["until_step"] == 478);
  CHECK(gain["by"] == "trials");
}
