// What tuning costs a job is counted whole: trials, lost steps, the final comparison.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "fake_world.hpp"

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

}  // namespace

TEST_CASE("the final comparison's steps and changes of plan count", "[overhead]") {
  FakeWorld one(fake_job(), two_plans(), 5, 0.001);
  one.begin();
  REQUIRE(one.run());
  INFO(one.history());
  REQUIRE(one.state().compared);
  // A B B A A B, from B: four changes, and three blocks of the initial plan, two of them with warm-up.
  CHECK(one.state().comparison_changes_ms == Approx(4 * kSwitchMs));
  CHECK(one.state().comparison_excess_ms >= 19 * (kInitialMs - kBestMs) * 0.9);
  CHECK(one.state().overhead_ms() ==
        Approx(of_trials(one.state()) + one.state().comparison_changes_ms + one.state().comparison_excess_ms));
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
