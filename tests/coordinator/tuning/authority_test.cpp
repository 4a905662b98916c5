// What the modes, a freeze and a kill switch allow the tuning machine to do.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

FakeWorld world() {
  return FakeWorld(fake_job(), three_plans(), 7, 0.03);
}

}  // namespace

TEST_CASE("mode observe proposes nothing") {
  FakeWorld one(fake_job(JobMode::kObserve), three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().trials.empty());
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().initial_measured.mean_ms == Approx(100).epsilon(0.1));
}

TEST_CASE("mode recommend names a plan and tries none") {
  FakeWorld one(fake_job(JobMode::kRecommend), three_plans(), 3, 0.03);
  one.begin();
  REQUIRE(one.run());
  CHECK(one.state().trials.empty());
  CHECK(one.state().recommendation_json == "worse");  // what the model believes to be best
}

TEST_CASE("mode approve waits before each trial") {
  FakeWorld one(fake_job(JobMode::kApprove), three_plans(), 3, 0.03);
  one.begin();
  for (int trial = 1; trial <= 2; ++trial) {
    REQUIRE(one.run([&] { return one.state().doing == Doing::kAwaitingApproval; }));
    REQUIRE(std::cmp_equal(one.state().trials.size(), trial));
    (void)one.run([] { return false; }, 30);
    CHECK(one.running_plan() != one.state().trials.back().plan.hash);
    one.feed(Order::kApprove);
  }
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("freezing ends the trial and keeps the incumbent until unfrozen") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(
      one.run([&] { return one.state().has_trial() && one.state().trials.back().state == TrialState::kMeasuring; }));
  one.feed(Order::kFreeze);
  CHECK(one.state().trials.back().reason == FailureReason::kFrozen);
  (void)one.run([] { return false; }, 200);
  CHECK(one.running_plan() == "initial");
  CHECK(one.state().trials.size() == 1);
  one.feed(Order::kUnfreeze);
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("a node's kill switch ends the trial, and the way back to the incumbent says that it is one") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(
      one.run([&] { return one.state().has_trial() && one.state().trials.back().state == TrialState::kMeasuring; }));
  one.feed(KillSwitches{{"of another cluster's node"}});
  CHECK(one.state().has_trial());
  one.feed(KillSwitches{{"n1"}});
  CHECK(one.state().trials.back().reason == FailureReason::kKillSwitch);
  CHECK(one.state().trials.back().message.find("node n1") != std::string::npos);
  one.proposals.clear();
  (void)one.run([] { return false; }, 200);
  CHECK(one.running_plan() == "initial");
  CHECK(one.state().trials.size() == 1);
  for (const ProposePlan& proposal : one.proposals) CHECK(proposal.incumbent);
  one.feed(Order::kFreeze);
  one.feed(KillSwitches{});
  (void)one.run([] { return false; }, 50);
  CHECK(one.state().trials.size() == 1);  // still frozen
  one.feed(Order::kUnfreeze);
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("an adopted plan that runs already is said to be the incumbent, so that a kill switch does not leave it") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run());
  REQUIRE(one.state().incumbent.hash == "best");
  const bool became_incumbent = std::any_of(one.proposals.begin(), one.proposals.end(), [](const ProposePlan& said) {
    return said.plan_json == "best" && said.incumbent;
  });
  CHECK(became_incumbent);
  const bool ever_a_trials = std::any_of(one.proposals.begin(), one.proposals.end(), [](const ProposePlan& said) {
    return said.plan_json == "best" && !said.incumbent;
  });
  CHECK(ever_a_trials);
}

TEST_CASE("ranks that a kill switch keeps from a plan say nothing against the plan") {
  FakeWorld one = world();
  one.begin();
  const auto is_changing = [&] { return one.state().has_trial() && one.state().doing == Doing::kChangingPlan; };
  REQUIRE(one.run(is_changing));
  const std::string refused = one.state().trials.back().plan.hash;
  one.feed(FromRank{1, one.state().launch, RankRefused{one.state().last_epoch, "kill_switch", "thrown on node n1"}});
  CHECK(one.state().trials.back().reason == FailureReason::kKillSwitch);
  CHECK(one.state().failed_hashes.empty());
  REQUIRE(one.run());
  const auto tried_again = [&](const Trial& trial) { return trial.plan.hash == refused && trial.id > 1; };
  CHECK(std::any_of(one.state().trials.begin(), one.state().trials.end(), tried_again));
}

TEST_CASE("ranks that leave the incumbent for a kill switch that nobody here has heard of end the trial") {
  FakeWorld one = world();
  one.begin();
  const auto in_incumbents_block = [&] {
    return one.state().has_trial() && one.state().doing == Doing::kMeasuring && one.running_plan() == "initial";
  };
  REQUIRE(one.run(in_incumbents_block));
  const std::uint64_t epoch = one.state().committed_epoch;
  one.feed(FromRank{1, one.state().launch, RankFailed{epoch, "kill_switch", "thrown on node n1"}});
  CHECK(one.state().trials.back().reason == FailureReason::kKillSwitch);
  CHECK(one.state().failed_hashes.empty());
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
}

TEST_CASE("freezing in the final comparison ends it on the adopted plan") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kComparing && one.running_plan() == "initial"; }));
  one.feed(Order::kFreeze);
  REQUIRE(one.run([&] { return one.state().phase != Phase::kComparing; }, 200));
  CHECK_FALSE(one.state().compared);
  CHECK(one.running_plan() == "best");
}

TEST_CASE("freezing while the final comparison's ranks are launched again leaves the launch be") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kComparing && one.running_plan() == "initial"; }));
  one.faults.crash_always = true;
  REQUIRE(one.run([&] { return one.state().doing == Doing::kLaunching; }));
  one.faults.crash_always = false;
  REQUIRE(one.state().phase == Phase::kComparing);
  one.feed(Order::kFreeze);
  CHECK(one.state().doing == Doing::kLaunching);  // what a node that is away then must know when it is back
  REQUIRE(one.run([&] { return one.state().phase != Phase::kComparing; }, 2000));
  CHECK_FALSE(one.state().compared);
  CHECK(one.running_plan() == "best");
}

TEST_CASE("a step time that changes for good while a trial awaits approval withdraws the question", "[approve]") {
  Job job = fake_job(JobMode::kApprove);
  job.steps = 4000;
  FakeWorld one(job, three_plans(), 3, 0.01);
  one.begin();
  const auto awaits = [&] { return one.state().doing == Doing::kAwaitingApproval; };
  REQUIRE(one.run(awaits));
  const std::int64_t known = one.state().step + 100;
  REQUIRE(one.run([&] { return one.state().step >= known; }));
  REQUIRE(awaits());
  one.faults.slowdown = 1.5;
  REQUIRE(one.run([&] { return !one.state().has_trial(); }, 2000));
  INFO(one.history());
  CHECK(one.state().trials.back().reason == FailureReason::kWithdrawn);
  CHECK(one.state().phase == Phase::kTraining);
  CHECK(one.state().failed_hashes.empty());
  // What has changed is looked for, and then the same plan may be asked about again.
  REQUIRE(one.run(awaits, 2000));
  CHECK(one.state().trials.size() == 2);
  CHECK(one.state().hardware.retuned_step > 0);
  CHECK(one.state().incumbent_measured.mean_ms == Approx(150).epsilon(0.05));
  one.feed(Order::kApprove);
  CHECK_FALSE(awaits());
  CHECK(one.state().has_trial());
}

TEST_CASE("an approval that comes after the question was withdrawn tries nothing", "[approve]") {
  Job job = fake_job(JobMode::kApprove);
  job.steps = 4000;
  FakeWorld one(job, three_plans(), 3, 0.01);
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kAwaitingApproval; }));
  const std::int64_t known = one.state().step + 100;
  REQUIRE(one.run([&] { return one.state().step >= known; }));
  one.faults.slowdown = 1.5;
  REQUIRE(one.run([&] { return !one.state().has_trial(); }, 2000));
  one.feed(Order::kApprove);
  CHECK_FALSE(one.state().has_trial());
}

TEST_CASE("what the site does not allow ends the trial and keeps the incumbent until it is allowed") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(
      one.run([&] { return one.state().has_trial() && one.state().trials.back().state == TrialState::kMeasuring; }));
  one.feed(KillSwitches{{}, "the site's policy (site.toml) allows less"});
  CHECK(one.state().trials.back().reason == FailureReason::kKillSwitch);
  CHECK(one.tuning().held_by() == "the site's policy (site.toml) allows less");
  (void)one.run([] { return false; }, 200);
  CHECK(one.running_plan() == "initial");
  CHECK(one.state().trials.size() == 1);
  one.feed(KillSwitches{});
  REQUIRE(one.run());
  CHECK(one.state().incumbent.hash == "best");
}
