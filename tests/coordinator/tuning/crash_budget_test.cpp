#include "tuning/launch/crash_budget.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// At most 3 crashes within 10 s or 20 steps.
CrashSettings settings() {
  return {3, std::chrono::seconds(10), 20};
}

std::vector<Crash> crash_at(std::int64_t second, std::int64_t step) {
  return {{second * kSecond, step, 1, "a", "why"}};
}

bool counts(std::vector<Crash> crashes, std::int64_t second, std::int64_t step) {
  forget_old(crashes, settings(), second * kSecond, step);
  return !crashes.empty();
}

// Long jobs whose adopted plan is "best", with "better" before it.
FakeWorld trained_world(CrashSettings crashes) {
  Job job = fake_job();
  job.trials.stop_after = false;
  job.steps = 6000;
  job.crashes = crashes;
  FakeWorld one(job, {{"initial", 100, 110}, {"better", 80, 70}, {"best", 60, 75}}, 3, 0.02);
  one.faults.snapshot_every = 10;
  one.begin();
  const bool trains =
      one.run([&] { return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing; }, 100000);
  REQUIRE(trains);
  REQUIRE(one.running_plan() == "best");
  return one;
}

bool is_halted(const FakeWorld& one) {
  return one.state().doing == Doing::kHalted;
}

// Every plan crashes so many steps after each launch, until the job is halted.
void crash_until_halted(FakeWorld& one, int steps) {
  for (const char* plan : {"initial", "better", "best"}) one.faults.crash_after[plan] = steps;
  REQUIRE(one.run([&] { return is_halted(one); }, 100000));
}

}  // namespace

TEST_CASE("a crash counts while it is recent in time or in steps") {
  CHECK(counts(crash_at(100, 50), 109, 1000));
  CHECK(counts(crash_at(100, 50), 5000, 69));
  CHECK(counts(crash_at(100, 50), 5000, 40));  // back at an earlier snapshot
  CHECK_FALSE(counts(crash_at(100, 50), 110, 70));
}

TEST_CASE("a clock that was set back makes no crash older") {
  CHECK(counts(crash_at(100, 50), 3, 1000));
}

TEST_CASE("crashes count for the plan that they were under") {
  const std::vector<Crash> crashes = {{1, 1, 1, "a", ""}, {2, 2, 2, "b", ""}, {3, 3, 3, "a", ""}};
  CHECK(crashes_of(crashes, "a") == 2);
  CHECK(crashes_of(crashes, "b") == 1);
  CHECK(crashes_of(crashes, "c") == 0);
}

TEST_CASE("a plan that crashes long after each launch is given up all the same") {
  FakeWorld one = trained_world({3, std::chrono::hours(1), 200});
  const int launches = one.launches();
  one.faults.crash_after["best"] = 150;
  REQUIRE(one.run([&] { return one.state().incumbent.hash == "better"; }, 100000));
  INFO(one.history());
  CHECK(one.launches() == launches + 3);
  const auto& trials = one.state().trials;
  const auto left =
      std::find_if(trials.begin(), trials.end(), [](const Trial& each) { return each.plan.hash == "best"; });
  REQUIRE(left != trials.end());
  CHECK(left->state == TrialState::kFailed);
  CHECK(left->reason == FailureReason::kCrash);
  CHECK_THAT(left->message, Catch::Contains("crashed 4 times, with 3 times within 3600 s or 200 steps allowed"));
  CHECK_THAT(one.history(), Catch::Contains("failed (crash) and is left for the one before it"));
  REQUIRE(one.run([&] { return one.running_plan() == "better" && one.state().doing == Doing::kNothing; }, 100000));
}

TEST_CASE("a plan that crashes now and then, and gets on in between, is kept") {
  // 150 steps take 9 s: each crash is forgotten before the next but one.
  FakeWorld one = trained_world({1, std::chrono::seconds(5), 100});
  one.faults.crash_after["best"] = 150;
  const int launches = one.launches();
  REQUIRE(one.run([] { return false; }, 100000));
  INFO(one.history());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.launches() > launches + 10);
  CHECK(one.state().crashes.size() <= 1);
}

TEST_CASE("when the plans before it crash as well the job is halted, and says why") {
  FakeWorld one = trained_world({3, std::chrono::hours(1), 200});
  const int launches = one.launches();
  crash_until_halted(one, 30);
  INFO(one.history());
  CHECK(one.state().incumbent.hash == "initial");
  CHECK(one.launches() == launches + 3 + 4 + 4);
  CHECK_FALSE(is_final(one.state().phase));
  CHECK_THAT(one.state().failure, Catch::Contains("its ranks have crashed 4 times") && Catch::Contains("last words"));
  CHECK_THAT(one.history(), Catch::Contains("the job is halted: "));
  CHECK(one.running_plan().empty());
  (void)one.run([] { return false; }, 500);
  CHECK(is_halted(one));
  CHECK(one.launches() == launches + 11);
  SECTION("a coordinator that restarts halts it still") {
    one.restart_coordinator(false);
    (void)one.run([] { return false; }, 500);
    CHECK(is_halted(one));
    CHECK(one.launches() == launches + 11);
  }
  SECTION("so does a node that goes and comes back") {
    one.lose_node("n1");
    one.return_node("n1");
    (void)one.run([] { return false; }, 500);
    CHECK(is_halted(one));
  }
  SECTION("somebody says that it may go on, and it does, from its last snapshot") {
    const std::int64_t step = one.state().step;
    one.faults.crash_after.clear();
    one.feed(Order::kResume);
    CHECK(one.state().failure.empty());
    REQUIRE(one.run([&] { return one.state().step > step + 20; }, 10000));
    CHECK(one.running_plan() == "initial");
    CHECK(one.state().crashes.empty());
    REQUIRE(one.run([] { return false; }, 100000));
    CHECK(one.state().phase == Phase::kFinished);
  }
  SECTION("it can be stopped") {
    one.feed(Order::kStop);
    CHECK(one.state().phase == Phase::kStopped);
  }
}

TEST_CASE("launches whose ranks never meet are no crashes of the plan, until that has lasted") {
  FakeWorld one = trained_world({3, std::chrono::hours(1), 200});
  const int launches = one.launches();
  one.faults.ranks_never_meet = true;
  REQUIRE(one.run([&] { return one.launches() == launches + 20; }, 100000));
  INFO(one.history());
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().crashes.size() <= 5);
  SECTION("the link between them is well again: the job goes on where it was") {
    const std::int64_t step = one.state().step;
    one.faults.ranks_never_meet = false;
    REQUIRE(one.run([&] { return one.state().step > step; }, 10000));
    CHECK(one.running_plan() == "best");
    CHECK(one.launches() <= launches + 21);
  }
  SECTION("a coordinator that restarts still waits for them") {
    one.restart_coordinator(false);
    REQUIRE(one.run([&] { return one.launches() == launches + 40; }, 100000));
    CHECK(one.state().incumbent.hash == "best");
  }
  SECTION("for longer than crashes.within_s: every plan is tried, then the job is halted and says why") {
    const auto began = one.clock.monotonic();
    REQUIRE(one.run([&] { return is_halted(one); }, 1000000));
    CHECK(one.clock.monotonic() - began > std::chrono::minutes(55));
    CHECK_THAT(one.state().failure,
               Catch::Contains("no rank has come to a step for ") && Catch::Contains("last words"));
  }
}

TEST_CASE("a launch that a candidate's crash makes necessary is not the incumbent's crash") {
  FakeWorld one(fake_job(), {{"initial", 100, 110}, {"bad", 60, 75}}, 11, 0.03);
  one.faults.crash = {"bad"};
  one.begin();
  REQUIRE(one.run([&] { return one.launches() == 2; }));
  CHECK(one.state().crashes.empty());
}

TEST_CASE("a crashed rank's last lines are told as they were, once, and its log by node and path", "[crashes]") {
  Job job = fake_job(JobMode::kObserve);
  job.trials.stop_after = false;
  FakeWorld one(job, three_plans(), 3, 0.03);
  one.begin();
  for (int crash = 0; crash < 2; ++crash) {
    REQUIRE(one.run([&] { return one.launches() == crash + 1 && one.state().step > 20 * (crash + 1); }));
    one.feed(FromRank{1, one.state().launch,
                      RankExited{1, 0, "Traceback:\n  File 'train.py', pid " + std::to_string(crash) + "\nValueError",
                                 "/state/jobs/fake/rank-1.log"}});
  }
  INFO(one.history());
  const std::string output = "the last lines of rank 1:\nTraceback:\n  File 'train.py', pid 0\nValueError";
  const std::size_t first = one.history().find(output);
  REQUIRE(first != std::string::npos);
  CHECK(one.history().find("the last lines of rank 1", first + 1) == std::string::npos);
  CHECK_THAT(one.history(), Catch::Contains("rank 1 exited with code 1 (its log: n1:/state/jobs/fake/rank-1.log)"));
}
