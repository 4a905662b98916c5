// A restarted job whose loss a plan spoils: in its trial, and once it is adopted.

#include <algorithm>
#include <catch2/catch.hpp>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Job restarted_job() {
  Job job = fake_job();
  job.delivery = Delivery::kRestart;
  job.checkpoint = "/checkpoints";
  job.train = {"train", "{checkpoint}"};
  job.steps = 4000;
  job.trials.stop_after = false;
  return job;
}

FakeWorld world() {
  return {restarted_job(), {{"initial", 100, 110}, {"best", 70, 80}}, 7, 0.03};
}

const Trial& trial_of(const FakeWorld& of, const std::string& plan) {
  const auto found = std::ranges::find_if(of.state().trials, [&](const Trial& one) { return one.plan.hash == plan; });
  REQUIRE(found != of.state().trials.end());
  return *found;
}

bool trains_on(const FakeWorld& one) {
  return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing;
}

bool adopted(const FakeWorld& one) {
  return one.state().incumbent.hash == "best" && one.running_plan() == "best" && one.variant().empty();
}

}  // namespace

TEST_CASE("a restarted trial whose loss is spoilt fails for that, and its plan is not tried again") {
  const bool rises = GENERATE(false, true);
  FakeWorld one = world();
  if (rises) one.faults.loss_factor = {{"best", 100}};
  if (!rises) one.faults.not_finite = {"best"};
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(trial_of(one, "best").reason == FailureReason::kLoss);
  CHECK(one.state().incumbent.hash == "initial");
  CHECK(one.state().failed_hashes == std::vector<std::string>{"best"});
  const auto& steps = one.own_steps();
  CHECK(std::ranges::adjacent_find(steps, [](auto a, auto b) { return b != a + 1; }) == steps.end());
}

TEST_CASE("an adopted plan that spoils a restarted job's loss is left, and the job goes on from before it") {
  FakeWorld one = world();
  one.faults.not_finite_after = {{"best", 12}};
  one.begin();
  REQUIRE(one.run([&] { return adopted(one); }, 100000));
  const std::int64_t since = one.own_steps().back() + 1;
  REQUIRE(one.run([&] { return one.state().incumbent.hash == "initial"; }, 100000));
  INFO(one.history());
  CHECK(trial_of(one, "best").state == TrialState::kFailed);
  CHECK(trial_of(one, "best").reason == FailureReason::kLoss);
  CHECK_THAT(trial_of(one, "best").message, Catch::Contains("no finite number under the new plan"));
  REQUIRE(one.run([&] { return trains_on(one) && one.running_plan() == "initial"; }, 100000));
  // Nothing of what it has trained was saved: its steps are trained again.
  const auto& steps = one.own_steps();
  CHECK(std::ranges::count(steps, since) == 2);
  CHECK(std::ranges::any_of(one.kills, [](const KillOn& kill) { return kill.unsaved && kill.variant.empty(); }));
  CHECK(one.state().spoilt_step == -1);
  CHECK_THAT(one.history(), Catch::Contains("from its checkpoint from before the plan that it left"));
}

TEST_CASE("what a restarted job has saved by itself under a plan that spoils it is told") {
  FakeWorld one = world();
  one.faults.saves_by_itself = true;
  one.faults.not_finite_after = {{"best", 12}};
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one) && trial_of(one, "best").reason == FailureReason::kLoss; }, 100000));
  CHECK_THAT(one.history(), Catch::Contains("the job had saved its checkpoint under the plan that it left"));
}

TEST_CASE("a coordinator that ends while a restarted job's adopted plan is watched watches on") {
  FakeWorld one = world();
  one.faults.not_finite_after = {{"best", 12}};
  one.begin();
  REQUIRE(one.run([&] { return adopted(one) && one.state().learning.watching(); }, 100000));
  one.restart_coordinator(false);
  REQUIRE(one.run([&] { return one.state().incumbent.hash == "initial" && trains_on(one); }, 100000));
  CHECK(trial_of(one, "best").reason == FailureReason::kLoss);
}

TEST_CASE("nothing else is tried while a restarted job's adopted plan is watched") {
  FakeWorld one({restarted_job(), {{"initial", 100, 110}, {"best", 70, 80}, {"next", 90, 75}}, 7, 0.03});
  one.begin();
  REQUIRE(one.run([&] { return adopted(one); }, 100000));
  const std::size_t before = one.own_steps().size();
  const std::size_t trials = one.state().trials.size();
  REQUIRE(one.run([&] { return one.state().trials.size() > trials || !one.variant().empty(); }, 100000));
  INFO(one.history());
  CHECK(one.own_steps().size() >= before + LearningWatch::kWatched - 1);
}
