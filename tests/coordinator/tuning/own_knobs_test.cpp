// Knobs of a job's own: what is tried, in what order, and what is adopted.

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "../fake_world.hpp"
#include "jobs/job_table.hpp"
#include "schema/job_without_plan.hpp"
#include "schema/plan_words.hpp"
#include "tuning/search/own_candidates.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

OwnKnob knob(const std::string& text) {
  auto parsed = parse_own_knob(text);
  REQUIRE(parsed.ok());
  return std::move(*parsed);
}

// Restarted, with nothing but knobs of its own.
Job own_job(const std::vector<std::string>& knobs) {
  Job job = fake_job(JobMode::kAuto);
  job.describe.clear();
  job.benchmark.clear();
  job.delivery = Delivery::kRestart;
  job.allow_restarts = true;
  job.checkpoint = "/saved";
  job.train = {"train", "--out", "{checkpoint}"};
  job.environment["A"] = "1";
  job.steps = 20000;
  job.trials.max_trials = 12;
  job.trials.overhead = 0.5;
  for (const std::string& text : knobs) job.own_knobs.push_back(knob(text));
  return job;
}

std::string value_of(const OwnSettings& settings, const std::string& key, const std::string& written) {
  const auto found = settings.find(key);
  return found == settings.end() ? written : found->second;
}

Plan plan_of(const TuningState& state) {
  const auto plan = parse_plan(state.incumbent.json, "the incumbent");
  REQUIRE(plan.ok());
  return *plan;
}

}  // namespace

TEST_CASE("own candidates differ from the incumbent in one knob, and none is what is written", "[own-knobs]") {
  const std::vector<OwnKnob> knobs{knob("A=1,2,4"), knob("arg:--w=2,8")};
  const OwnSettings written{{"env:A", "1"}};
  CHECK(own_candidates(knobs, written, {}, {}).empty());  // the incumbent is measured first
  std::set<OwnSettings> seen;
  for (const OwnCandidate& one : own_candidates(knobs, written, {}, {{{}, 100, 0.01}})) {
    seen.insert(one.settings);
    CHECK(one.gain_sigma > 0);
    CHECK(one.log_gain == Approx(0).margin(1e-9));
  }
  CHECK(seen == std::set<OwnSettings>{{{"env:A", "2"}}, {{"env:A", "4"}}, {{"arg:--w", "2"}}, {{"arg:--w", "8"}}});
}

TEST_CASE("numbers next to each other are expected to act alike", "[own-knobs]") {
  const std::vector<OwnKnob> knobs{knob("A=1,2,4,8")};
  const OwnSettings written{{"env:A", "1"}};
  const std::vector<OwnMeasurement> measured{{{}, 100, 0.01}, {{{"env:A", "4"}}, 80, 0.01}};
  std::map<OwnSettings, double> gains;
  for (const OwnCandidate& one : own_candidates(knobs, written, {}, measured)) gains[one.settings] = one.log_gain;
  CHECK(gains.at({{"env:A", "4"}}) == Approx(std::log(100.0 / 80)).epsilon(0.1));
  CHECK(gains.at({{"env:A", "2"}}) > 0.02);
  CHECK(gains.at({{"env:A", "8"}}) > gains.at({{"env:A", "2"}}) - 0.05);
}

TEST_CASE("where one value was several times as fast, another is still worth a trial", "[own-knobs]") {
  const std::vector<OwnKnob> knobs{knob("batch=env:A=1 env:B=32,env:A=8 env:B=4,env:A=32 env:B=1")};
  const OwnSettings written{{"env:A", "1"}, {"env:B", "32"}};
  const OwnSettings fast{{"env:A", "8"}, {"env:B", "4"}};
  const auto all = own_candidates(knobs, written, fast, {{{}, 341, 0.1}, {fast, 109, 0.1}});
  const auto untried = std::ranges::find(all, OwnSettings{{"env:A", "32"}, {"env:B", "1"}}, &OwnCandidate::settings);
  REQUIRE(untried != all.end());
  CHECK(untried->log_gain + 1.96 * untried->gain_sigma > 0.01);
}

TEST_CASE("a knob whose condition is not met stays as it is written", "[own-knobs]") {
  std::vector<OwnKnob> knobs{knob("flag:--compile=on,off"), knob("arg:--backend=a,b")};
  REQUIRE(add_condition(knobs[1], {"flag:--compile=on"}).ok());
  const OwnSettings written{{"flag:--compile", "off"}};
  for (const OwnCandidate& one : own_candidates(knobs, written, {}, {{{}, 100, 0.01}})) {
    CHECK(one.settings == OwnSettings{{"flag:--compile", "on"}});
  }
  const OwnSettings compiled{{"flag:--compile", "on"}};
  std::set<OwnSettings> seen;
  for (const OwnCandidate& one : own_candidates(knobs, written, compiled, {{compiled, 100, 0.01}}))
    seen.insert(one.settings);
  CHECK(seen.contains({}));
  CHECK(seen.contains({{"flag:--compile", "on"}, {"arg:--backend", "b"}}));
}

TEST_CASE("a job without a model is tuned by its own knobs", "[own-knobs]") {
  FakeWorld one(own_job({"A=1,2,4", "arg:--w=2,8"}), {}, 5, 0.02);
  one.faults.saves_every = 50;
  one.own_ms = [](const OwnSettings& own) {
    const double threads =
        std::map<std::string, double>{{"1", 1.0}, {"2", 0.8}, {"4", 0.9}}.at(value_of(own, "env:A", "1"));
    return 100 * threads * (value_of(own, "arg:--w", "") == "8" ? 0.9 : 1.0);
  };
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().profiling.requests.empty());
  CHECK(plan_of(one.state()).own == OwnSettings{{"env:A", "2"}, {"arg:--w", "8"}});
  CHECK(is_as_launched(plan_of(one.state())));
  CHECK(words_in(one.state().incumbent.json) == "--w 8, A=2");
  // No step is trained twice.
  const std::vector<std::int64_t>& own = one.own_steps();
  REQUIRE_FALSE(own.empty());
  for (std::size_t i = 1; i < own.size(); ++i) CHECK(own[i] == own[i - 1] + 1);
}

TEST_CASE("a value that there is no time to try is told, and is no recommendation", "[own-knobs]") {
  Job job = own_job({"A=1,2"});
  job.steps = 40;  // too few for a trial
  FakeWorld one(job, {}, 5, 0.02);
  one.own_ms = [](const OwnSettings&) { return 100; };
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.history().find("a plan that may be faster is not tried") != std::string::npos);
  CHECK(one.state().trials.empty());
  CHECK(one.state().recommendation_json.empty());
}

TEST_CASE("of knobs that change nothing hardly one is adopted", "[own-knobs]") {
  int adopted = 0;
  int trials = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    FakeWorld one(own_job({"A=1,2,4", "arg:--w=2,8"}), {}, seed, 0.03);
    one.own_ms = [](const OwnSettings&) { return 100.0; };
    one.begin();
    REQUIRE(one.run());
    trials += static_cast<int>(one.state().trials.size());
    for (const Trial& trial : one.state().trials) adopted += trial.state == TrialState::kAdopted ? 1 : 0;
  }
  INFO(adopted << " of " << trials);
  REQUIRE(trials > 60);
  CHECK(adopted <= 0.05 * trials);
}

TEST_CASE("settings that crash are given up, and the job goes on as it was", "[own-knobs]") {
  FakeWorld one(own_job({"A=1,2"}), {}, 7, 0.02);
  one.own_ms = [](const OwnSettings& own) { return own.empty() ? 100.0 : 50.0; };
  const Plan other = plan_as_launched(2, {{"env:A", "2"}});
  one.faults.out_of_memory.insert(to_json(other, own_words(other.own)));
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(plan_of(one.state()).own.empty());
  REQUIRE(one.state().trials.size() == 1);
  CHECK(one.state().trials[0].state == TrialState::kFailed);
}

TEST_CASE("settings that learn something else over the same samples are rejected, however fast they are",
          "[own-knobs]") {
  for (const std::string text : {"A=1,2@exact", "A=1,2"}) {
    FakeWorld one(own_job({text}), {}, 7, 0.02);
    one.own_ms = [](const OwnSettings& own) { return own.empty() ? 100.0 : 50.0; };
    const Plan other = plan_as_launched(2, {{"env:A", "2"}});
    one.faults.loss_factor[to_json(other, own_words(other.own))] = text.ends_with("@exact") ? 0.99 : 0.8;
    one.begin();
    REQUIRE(one.run());
    INFO(one.history());
    REQUIRE(one.state().trials.size() == 1);
    CHECK(one.state().trials[0].state == TrialState::kFailed);
    CHECK(one.state().trials[0].reason == FailureReason::kLoss);
    CHECK_THAT(one.state().trials[0].message, Catch::Contains("over the same"));
    CHECK(plan_of(one.state()).own.empty());
  }
}

TEST_CASE("a job of own knobs alone needs no model, and may name no plan", "[own-knobs]") {
  CHECK(check_job(own_job({"A=1,2"}), true).ok());
  CHECK_FALSE(check_job(own_job({"A=1,2"}), false).ok());  // nothing to profile
  Job planned = own_job({"A=1,2"});
  planned.train.emplace_back("{plan}");
  CHECK_THAT(check_job(planned, true).error().message, Catch::Contains("a command uses {plan}"));
  Job exact = own_job({"A=1,2"});
  exact.change_class = "exact";
  CHECK_THAT(check_job(exact, true).error().message, Catch::Contains("class \"rounding\""));
}
