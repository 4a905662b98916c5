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

namespace {

// Its ranks are launched and tell nothing for a minute, in which something happens each second.
FakeWorld untold_world(const RankLives& lives) {
  FakeWorld one(fake_job(), three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kLaunching && one.state().outstanding.empty(); }, 2000));
  for (int i = 0; i < 60; ++i) {
    one.clock.advance(std::chrono::seconds(1));
    one.feed(FromRank{0, one.state().launch, lives});
    one.feed(Tick{});
  }
  return one;
}

}  // namespace

TEST_CASE("ranks that tell no step and live are left alone, and people are told so once", "[silence]") {
  const auto lives =
      GENERATE(RankLives{true, false, false}, RankLives{false, true, false}, RankLives{false, false, true});
  FakeWorld one = untold_world(lives);
  INFO(one.history());
  CHECK(one.kills.empty());
  const std::string told = "nothing is measured or tuned until they do";
  const std::size_t first = one.history().find(told);
  REQUIRE(first != std::string::npos);
  CHECK(one.history().find(told, first + 1) == std::string::npos);
}

TEST_CASE("a job that ends well without a word of its steps has succeeded", "[silence]") {
  FakeWorld one = untold_world({true, false, false});
  for (const std::int32_t rank : {0, 1}) one.feed(FromRank{rank, one.state().launch, RankExited{0, 0, ""}});
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().failure.empty());
  CHECK_THAT(one.state().conclusion, Catch::Contains("told of no step"));
}

TEST_CASE("processor time alone hides a hang of ranks that have told steps for four times hang_s, output for ever",
          "[silence]") {
  const bool prints = GENERATE(false, true);
  FakeWorld one = evaluating_world(JobMode::kAuto, std::chrono::seconds(30), std::chrono::hours(1));
  const std::uint64_t launch = one.state().launch;
  int seconds = 0;
  for (; seconds < 300 && one.state().doing != Doing::kKilling; ++seconds) {
    one.clock.advance(std::chrono::seconds(1));
    one.feed(FromRank{0, launch, RankLives{prints, false, true}});
    one.feed(Tick{});
  }
  INFO(one.history());
  if (prints) CHECK(seconds == 300);
  if (!prints) CHECK((seconds > 120 && seconds < 200));
}

TEST_CASE("signs of life do not prolong a trial's silence", "[silence]") {
  FakeWorld one(fake_job(), three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(
      one.run([&] { return one.state().has_trial() && one.state().trials.back().state == TrialState::kMeasuring; }));
  for (int i = 0; i < 6; ++i) {
    one.clock.advance(std::chrono::seconds(1));
    one.feed(FromRank{0, one.state().launch, RankLives{false, false, true}});
    one.feed(Tick{});
  }
  CHECK(one.state().trials.front().reason == FailureReason::kHang);
}
