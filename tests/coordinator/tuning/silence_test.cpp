// Ranks that say nothing for long: a job that evaluates or saves between its steps is well.

#include <catch2/catch.hpp>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr Nanoseconds kEvaluation = std::chrono::seconds(60);  // many times trials.deadline_s

// It evaluates in plain training, once.
FakeWorld evaluating_world(JobMode mode, Nanoseconds hang, Nanoseconds pause) {
  Job job = fake_job(mode);
  job.trials.stop_after = false;
  job.hang = hang;
  FakeWorld one(job, three_plans(), 3, 0.03);
  one.faults.pauses[500] = pause;
  one.begin();
  REQUIRE(one.run([&] { return one.state().step >= 500; }));
  REQUIRE(one.state().phase == Phase::kTraining);
  return one;
}

}  // namespace

TEST_CASE("an evaluation between two steps of plain training is no hang", "[silence]") {
  FakeWorld one = evaluating_world(JobMode::kAuto, std::chrono::minutes(5), kEvaluation);
  REQUIRE(one.run([] { return false; }, 2000));
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.launches() == 1);
}

TEST_CASE("ranks that are silent for longer than hang_s are launched again", "[silence]") {
  FakeWorld one = evaluating_world(JobMode::kAuto, std::chrono::seconds(30), kEvaluation);
  REQUIRE(one.run([&] { return one.launches() == 2; }, 2000));
  CHECK_THAT(one.history(), Catch::Contains("no sign of life from the ranks for more than 30.0 s"));
  CHECK_THAT(one.history(), !Catch::Contains("since their launch"));
}

TEST_CASE("ranks that have told nothing since their launch may be of a program that tells nobody: people are told so",
          "[silence]") {
  FakeWorld one(fake_job(), three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kLaunching && one.state().outstanding.empty(); }, 2000));
  one.clock.advance(kEvaluation);
  one.feed(Tick{});
  CHECK_THAT(one.history(), Catch::Contains("none since their launch: the program must tell its agent of its steps"));
}

TEST_CASE("in mode observe nothing is ended however long the ranks are silent, and people are told once", "[silence]") {
  FakeWorld one = evaluating_world(JobMode::kObserve, std::chrono::seconds(30), kEvaluation);
  REQUIRE(one.run([] { return false; }, 2000));
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.launches() == 1);
  CHECK(one.kills.empty());
  const std::string told = "no sign of life from the ranks for more than 30.0 s. The job is in mode observe";
  const std::size_t first = one.history().find(told);
  REQUIRE(first != std::string::npos);
  CHECK(one.history().find(told, first + 1) == std::string::npos);
}

TEST_CASE("a pause while the initial plan is measured ends neither the launch nor the tuning", "[silence]") {
  FakeWorld one(fake_job(), three_plans(), 3, 0.03);
  one.faults.pauses[6] = kEvaluation;
  one.begin();
  REQUIRE(one.run([&] { return one.state().step >= 6; }));
  REQUIRE(one.state().phase == Phase::kMeasuring);
  REQUIRE(one.run());
  INFO(one.history());
  CHECK(one.launches() == 2);  // the untuned run's is the second
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("silence in a trial is its plan's hang after the trial's deadline", "[silence]") {
  FakeWorld one(fake_job(), three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(
      one.run([&] { return one.state().has_trial() && one.state().trials.back().state == TrialState::kMeasuring; }));
  one.faults.pauses[one.state().step + 1] = kEvaluation;
  REQUIRE(one.run([&] { return one.state().trials.front().state == TrialState::kFailed; }));
  CHECK(one.state().trials.front().reason == FailureReason::kHang);
}
