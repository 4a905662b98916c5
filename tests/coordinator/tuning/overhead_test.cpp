// What tuning costs a job is counted whole: trials, lost steps, the final comparison.

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr double kSwitchMs = 50;  // of the fake world
constexpr double kInitialMs = 100;
constexpr double kBestMs = 70;

std::vector<FakePlan> two_plans() {
  return {{"initial", kInitialMs, 110}, {"best", kBestMs, 80}};
}

double of_trials(const TuningState& state) {
  double sum = 0;
  for (const Trial& one : state.trials) sum += one.overhead_ms();
  return sum;
}

// A plan that is three times as fast as the initial one, and eleven that are neither better nor worse than that.
std::vector<FakePlan> many_alike() {
  std::vector<FakePlan> plans = {{"initial", 300, 310}, {"best", 100, 90}};
  for (int i = 0; i < 11; ++i) plans.push_back({"like" + std::to_string(i), 100.2, 91.0 + i});
  return plans;
}

}  // namespace

TEST_CASE("the final comparison's steps and changes of plan count", "[overhead]") {
  FakeWorld one(fake_job(), two_plans(), 5, 0.001);
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  REQUIRE(one.state().compared);
  // A B B A A B, from B: four changes, and three blocks of the initial plan, two of them with warm-up.
  CHECK(one.state().spent.comparison_changes_ms == Approx(4 * kSwitchMs));
  CHECK(one.state().spent.comparison_excess_ms >= 19 * (kInitialMs - kBestMs) * 0.9);
  CHECK(one.state().overhead_ms() == Approx(of_trials(one.state()) + one.state().spent.comparison_changes_ms +
                                            one.state().spent.comparison_excess_ms));
}

TEST_CASE("no comparison is made that would cost more than trials may, also where the job ends with its tuning",
          "[overhead]") {
  FakeWorld whole(fake_job(), two_plans(), 5, 0.001);
  whole.begin();
  REQUIRE(whole.run());
  Job job = fake_job();
  // Room for the trials, and for half of the comparison.
  const double comparison = whole.state().overhead_ms() - of_trials(whole.state());
  job.trials.overhead = (of_trials(whole.state()) * 2 + comparison / 2) / whole.state().job_ms();
  REQUIRE(of_trials(whole.state()) < comparison / 2);
  FakeWorld one(job, two_plans(), 5, 0.001);
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.state().incumbent.hash == "best");
  CHECK_FALSE(one.state().compared);
  CHECK_THAT(one.history(), Catch::Contains("are not compared once more: it would cost"));
  CHECK(one.state().overhead_ms() <= one.state().allowed_overhead_ms());
}

TEST_CASE("steps that a candidate's crash loses and that are run again count", "[overhead]") {
  const auto overhead_with_crash_after = [](int steps) {
    FakeWorld one(fake_job(), {{"initial", kInitialMs, 110}, {"bad", 95, 75}}, 11, 0.001);
    one.faults.crash_after["bad"] = steps;
    one.begin();
    REQUIRE(one.run([&] { return one.launches() == 2 && one.state().doing == Doing::kSearching; }));
    REQUIRE(one.state().trials.front().state == TrialState::kFailed);
    return one.state().trials.front().overhead_ms();
  };
  // The snapshot is that of the change of plan.
  CHECK(overhead_with_crash_after(6) - overhead_with_crash_after(2) == Approx(4 * kInitialMs).epsilon(0.1));
}

TEST_CASE("steps that are lost to a crash of the job's own count for no trial", "[overhead]") {
  Job job = fake_job(JobMode::kApprove);
  FakeWorld one(job, two_plans(), 11, 0.001);
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kAwaitingApproval; }));
  const std::int64_t step = one.state().step;
  REQUIRE(one.run([&] { return one.state().step >= step + 10; }));
  one.faults.crash_at_step = one.state().step + 2;
  REQUIRE(one.run([&] { return one.launches() == 2 && one.state().doing == Doing::kAwaitingApproval; }));
  CHECK(one.state().overhead_ms() == 0);
}

TEST_CASE("trained steps count with the time that they took, not with the initial plan's", "[overhead]") {
  FakeWorld one(fake_job(), {{"initial", 300, 310}, {"best", 100, 90}}, 5, 0.01);
  double trained_ms = 0;
  std::int64_t step = 0;
  one.after_event = [&] {
    if (one.state().step > step) trained_ms += one.state().step_ms;
    step = one.state().step;
  };
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kStopping; }));
  REQUIRE(one.state().incumbent.hash == "best");
  CHECK(one.state().spent.trained_ms == Approx(trained_ms));
  const auto left = static_cast<double>(one.state().job.steps - step);
  CHECK(one.state().job_ms() == Approx(trained_ms + left * one.state().incumbent_measured.mean_ms));
}

TEST_CASE("a stored state that does not tell what its steps took takes them at the incumbent's pace", "[overhead]") {
  TuningState state;
  state.job = fake_job();
  state.step = 100;
  state.incumbent_measured.mean_ms = 50;
  auto document = nlohmann::json::parse(to_json(state));
  document.erase("trained_ms");
  const auto parsed = parse_tuning_state(document.dump());
  REQUIRE(parsed.ok());
  CHECK(parsed->spent.trained_ms == 5000);
}

TEST_CASE("trials of plans that hardly differ stay within their share of the job's time, seeds 1 to 5", "[overhead]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Job job = fake_job();
    job.steps = 4000;
    job.trials.max_trials = 12;
    job.trials.overhead = 0.02;
    job.trials.stop_after = false;
    FakeWorld one(job, many_alike(), seed, 0.02);
    one.faults.warmup = 0.5;
    one.begin();
    REQUIRE(one.run([] { return false; }, 100'000));
    INFO(one.history());
    CHECK(one.state().trials.size() > 2);
    CHECK(one.state().overhead_ms() <= 0.02 * milliseconds(one.clock.monotonic()));
  }
}

TEST_CASE("a plan that is many times slower than predicted is left at the step that uses up the budget", "[overhead]") {
  constexpr double kSlowMs = 1200;
  Job job = fake_job();
  job.trials.overhead = 0.02;
  FakeWorld one(job, {{"initial", kInitialMs, 110}, {"slow", kSlowMs, 75}}, 5, 0.001);
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  REQUIRE(one.state().trials.size() == 1);
  CHECK(one.state().trials.front().reason == FailureReason::kOverhead);
  CHECK(one.state().incumbent.hash == "initial");
  CHECK(one.state().overhead_ms() <= one.state().allowed_overhead_ms() + kSlowMs);
}

TEST_CASE("a job that grants trials no time has none", "[overhead]") {
  Job job = fake_job();
  job.trials.overhead = 0;
  FakeWorld one(job, two_plans(), 5, 0.001);
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().trials.empty());
  CHECK(one.state().overhead_ms() == 0);
}

TEST_CASE("a plan's steps count while the way back from it is not agreed on", "[overhead]") {
  constexpr double kWorseMs = 120;
  FakeWorld one(fake_job(), {{"initial", kInitialMs, 110}, {"worse", kWorseMs, 75}}, 5, 0.001);
  one.faults.no_ack.insert("initial");
  one.begin();
  REQUIRE(one.run([&] { return one.launches() == 2; }));
  REQUIRE(one.state().trials.size() == 1);
  // Twice the deadline.
  const double steps = 2 * milliseconds(one.state().job.trials.deadline) / kWorseMs;
  CHECK(one.state().overhead_ms() >= 0.9 * steps * (kWorseMs - kInitialMs));
}

TEST_CASE("the incumbent's warm-up after a plan that was rejected is not taken for its pace", "[overhead]") {
  FakeWorld one(fake_job(), {{"initial", kInitialMs, 110}, {"worse", 125, 75}, {"alike", 103, 80}}, 5, 0.001);
  one.faults.warmup = 2;
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  REQUIRE(one.state().trials.size() == 2);
  REQUIRE(one.state().trials.front().reason == FailureReason::kSlower);
  CHECK(one.state().trials.back().ratio.ratio == Approx(kInitialMs / 103).epsilon(0.01));
}

TEST_CASE("a comparison that costs more than was thought ends when the budget is used up", "[overhead]") {
  const auto compared = [](double share, double warmup) {
    Job job = fake_job();
    job.trials.overhead = share;
    FakeWorld one(job, two_plans(), 5, 0.001);
    one.after_event = [&] {
      if (one.state().phase == Phase::kComparing) one.faults.warmup = warmup;
    };
    one.begin();
    REQUIRE(one.run());
    return std::pair{one.state(), one.history()};
  };
  const auto [usual, of_usual] = compared(1, 0);
  REQUIRE(usual.compared);
  // The initial plan's first step takes longer than the whole comparison should.
  const double share = 1.5 * usual.overhead_ms() / usual.job_ms();
  const auto [state, history] = compared(share, 20);
  INFO(history);
  CHECK_THAT(history, Catch::Contains("ends early: trials.overhead is used up"));
  CHECK_FALSE(state.compared);
  CHECK(state.incumbent.hash == "best");
  CHECK(state.overhead_ms() <= state.allowed_overhead_ms() + 21 * kInitialMs);
}

TEST_CASE("what a live change costs has its slow first steps in it, and a gain must exceed that too") {
  const auto adopted_in = [](double warmup) {
    Job job = fake_job();
    job.trials.overhead = 1;
    FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}}, 5, 0.001);
    one.faults.warmup = warmup;
    one.begin();
    REQUIRE(one.run([&] { return one.state().phase != Phase::kTrials && !one.state().trials.empty(); }));
    INFO(one.history());
    REQUIRE(one.state().incumbent.hash == "best");
    return one.state().trials.front();
  };
  const Trial quick = adopted_in(0);
  const Trial slow = adopted_in(20);
  CHECK(quick.change_phases.warm_up_ms < 2);
  // Twenty times 70 ms, then 0.3 of that, and so on.
  CHECK(slow.change_phases.warm_up_ms == Approx(20 * 70 / 0.7).epsilon(0.05));
  CHECK(slow.switch_ms == Approx(quick.switch_ms + slow.change_phases.warm_up_ms).epsilon(0.05));
  CHECK(slow.break_even_steps > quick.break_even_steps);
}
