// Jobs whose launches a scheduler carries out: they wait in its queue, and end for reasons that are not the plan's.

#include <catch2/catch.hpp>
#include <string>

#include "../fake_world.hpp"
#include "agents/wire_commands.hpp"
#include "agents/wire_events.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Job submitted_job() {
  Job job = fake_job();
  job.delivery = Delivery::kRestart;
  job.checkpoint = "/checkpoints";
  job.train = {"train", "{checkpoint}"};
  job.submit = {"submit"};
  job.steps = 4000;
  return job;
}

FakeWorld world(Job job = submitted_job()) {
  return FakeWorld(std::move(job), {{"initial", 100, 110}, {"best", 70, 80}}, 7, 0.03);
}

const Trial& first_trial(const FakeWorld& of) {
  REQUIRE_FALSE(of.state().trials.empty());
  return of.state().trials.front();
}

}  // namespace

TEST_CASE("a submitted job waits in the queue for longer than its ranks may be silent, and is tuned") {
  FakeWorld one = world();
  one.faults.queue_time = std::chrono::seconds(60);
  one.begin();
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(first_trial(one).state == TrialState::kAdopted);
  // To wait for one's turn is part of what a change costs.
  CHECK(first_trial(one).switch_ms >= 60000);
  const ChangePhases& phases = first_trial(one).change_phases;
  CHECK(phases.copy_ms + phases.queue_ms + phases.start_ms >= 60000);
  CHECK(one.own_steps().back() > 0);
}

TEST_CASE("what a scheduler does to a trial's launch is not the plan's fault, and the plan is tried again") {
  for (const auto state : {SubmissionState::kPreempted, SubmissionState::kWalltime, SubmissionState::kNodeFailed,
                           SubmissionState::kRequeued, SubmissionState::kCancelled, SubmissionState::kNotStarted,
                           SubmissionState::kNotSubmitted, SubmissionState::kLost}) {
    FakeWorld one = world();
    one.begin();
    REQUIRE(one.run([&] { return one.variant() == "trial" && one.running_plan() == "best"; }, 100000));
    one.faults.interrupt[one.launches()] = state;
    const bool ended = one.run([] { return false; }, 100000);
    INFO(to_string(state) << "\n" << one.history());
    REQUIRE(ended);
    CHECK(first_trial(one).state == TrialState::kFailed);
    CHECK(first_trial(one).reason.text() == to_string(state));
    CHECK(one.state().failed_hashes.empty());
    REQUIRE(one.state().trials.size() >= 2);
    CHECK(one.state().trials[1].plan.hash == "best");
    CHECK(one.state().trials[1].state == TrialState::kAdopted);
    CHECK(one.state().phase == Phase::kFinished);
  }
}

TEST_CASE("a trial that runs out of the scheduler's memory, or fails, is the plan's fault") {
  for (const auto state : {SubmissionState::kOutOfMemory, SubmissionState::kFailed}) {
    FakeWorld one = world();
    one.begin();
    REQUIRE(one.run([&] { return one.variant() == "trial" && one.running_plan() == "best"; }, 100000));
    one.faults.interrupt[one.launches()] = state;
    REQUIRE(one.run([] { return false; }, 100000));
    INFO(one.history());
    CHECK(first_trial(one).reason.text() == (state == SubmissionState::kOutOfMemory ? "out_of_memory" : "crash"));
    CHECK(one.state().failed_hashes == std::vector<std::string>{"best"});
    CHECK(one.state().incumbent.hash == "initial");
  }
}

TEST_CASE("the job itself goes on after every preemption and time limit, from its checkpoint") {
  FakeWorld one = world();
  one.begin();
  for (int i = 1; i <= 12; ++i) {
    one.faults.interrupt[i] = i % 2 == 0 ? SubmissionState::kPreempted : SubmissionState::kWalltime;
  }
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.faults.interrupt.empty());
  const auto& steps = one.own_steps();
  for (std::size_t i = 1; i < steps.size(); ++i) REQUIRE(steps[i] == steps[i - 1] + 1);
}

TEST_CASE("what the job itself waits in the queue is no trial's cost, though a trial awaits approval") {
  Job job = submitted_job();
  job.mode = JobMode::kApprove;
  FakeWorld one = world(std::move(job));
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kAwaitingApproval; }, 100000));
  const double before_ms = one.state().overhead_ms();
  const int launches = one.launches();
  one.faults.interrupt[launches] = SubmissionState::kPreempted;
  one.faults.queue_time = std::chrono::hours(3);
  REQUIRE(one.run([&] { return one.launches() > launches && !one.running_plan().empty(); }, 100000));
  const std::int64_t step = one.state().step;
  REQUIRE(one.run([&] { return one.state().step > step; }, 100000));
  INFO(one.history());
  CHECK(one.faults.interrupt.empty());
  CHECK(one.state().doing == Doing::kAwaitingApproval);
  CHECK(one.state().overhead_ms() == before_ms);
}

TEST_CASE("a job whose launches somebody cancels again and again is given up, and says so") {
  FakeWorld one = world();
  one.begin();
  for (int i = 1; i <= 8; ++i) one.faults.interrupt[i] = SubmissionState::kCancelled;
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().phase == Phase::kFailed);
  CHECK_THAT(one.state().failure, Catch::Contains("interrupted 4 times in a row"));
  CHECK(one.launches() == 4);
}

TEST_CASE("the end of a submitted rank waits for its submission to say what it means") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kMeasuring && one.own_steps().size() > 2; }, 100000));
  const std::uint64_t launch = one.state().launch;
  one.feed(FromRank{1, launch, RankExited{-1, 0, "last words"}});
  CHECK(one.state().doing != Doing::kKilling);
  one.feed(FromRank{0, launch, RankSubmission{SubmissionState::kFailed, "Slurm job 3 ended as FAILED"}});
  CHECK(one.state().doing == Doing::kKilling);
  CHECK_THAT(one.history(), Catch::Contains("Slurm job 3 ended as FAILED; rank 1 ended; its last output: last words"));
}

TEST_CASE("what a scheduler says of a halted job's last launch does not launch it again") {
  Job job = submitted_job();
  job.crashes = {0, std::chrono::hours(1), 200};
  FakeWorld one = world(job);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kMeasuring && one.own_steps().size() > 2; }, 100000));
  const std::uint64_t launch = one.state().launch;
  one.feed(FromRank{0, launch, RankSubmission{SubmissionState::kFailed, "Slurm job 3 ended as FAILED"}});
  REQUIRE(one.run([&] { return one.state().doing == Doing::kHalted; }, 1000));
  one.feed(FromRank{0, launch, RankSubmission{SubmissionState::kRequeued, "Slurm job 3 was requeued"}});
  (void)one.run([] { return false; }, 500);
  CHECK(one.state().doing == Doing::kHalted);
  CHECK(one.launches() == 1);
}

TEST_CASE("rank 0's node is told where all ranks belong, and no other") {
  LaunchOn launch;
  launch.nodes = {{"n0", 0, 4}, {"n1", 4, 4}};
  const wire::ToAgent to = command(launch, {7, "job", "{}", "file:///r/", ""});
  REQUIRE(to.command().launch().nodes_size() == 2);
  CHECK(to.command().launch().nodes(1).node() == "n1");
  CHECK(to.command().launch().nodes(1).ranks() == 4);
}

TEST_CASE("a submission's state that nobody knows is no news") {
  wire::RankEvent event;
  event.set_launch(3);
  event.mutable_submission()->set_state("preempted");
  const auto known = from_rank(event);
  REQUIRE(known);
  CHECK(std::get<RankSubmission>(known->news).state == SubmissionState::kPreempted);
  event.mutable_submission()->set_state("abducted");
  CHECK_FALSE(from_rank(event));
}
