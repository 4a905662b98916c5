// When a job that is restarted for trials is stopped, and what it loses: nothing.

#include <algorithm>
#include <catch2/catch.hpp>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A user's job of which nothing is known yet.
FakeWorld users_world(bool allowed = true, JobMode mode = JobMode::kAuto) {
  Job job = fake_job(mode);
  job.delivery = Delivery::kRestart;
  job.checkpoint = "/checkpoints";
  job.train = {"train", "{checkpoint}"};
  job.steps = 4000;
  job.trials.stop_after = false;
  FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}}, 7, 0.03);
  one.forget_stops();
  one.allow_restarts(allowed);
  return one;
}

bool trains_on(const FakeWorld& one) {
  return one.state().phase == Phase::kTraining && one.state().doing == Doing::kNothing;
}

bool loses_nothing(const FakeWorld& one) {
  const auto& steps = one.own_steps();
  return std::ranges::adjacent_find(steps, [](auto a, auto b) { return b != a + 1; }) == steps.end();
}

bool was_tried(const FakeWorld& one) {
  return std::ranges::any_of(one.state().trials,
                             [](const Trial& trial) { return trial.state == TrialState::kAdopted; });
}

}  // namespace

TEST_CASE("a job that nobody allowed to be stopped is not, and the plan that would be tried is named",
          "[checkpoints]") {
  FakeWorld one = users_world(false);
  one.faults.saves_every = 20;
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(one.kills.empty());
  CHECK(one.state().recommendation_json == "best");
  CHECK_THAT(one.history(), Catch::Contains("A trial of it needs 'trimtab tune --allow-restarts'"));
  CHECK_THAT(one.state().conclusion, Catch::Contains("nobody has allowed that"));
}

TEST_CASE("a job that does not save when it is asked to end is stopped just after its checkpoint, and loses no step",
          "[checkpoints]") {
  FakeWorld one = users_world();
  one.faults.saves_at_stop = false;
  one.faults.saves_every = 50;
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one) && was_tried(one); }, 100000));
  INFO(one.history());
  CHECK(loses_nothing(one));
  CHECK_FALSE(one.state().stops.saves_at_stop);
  CHECK_THAT(one.history(), Catch::Contains("At risk until it has gone on from there once: all "));
  CHECK_THAT(one.history(), Catch::Contains("just after its checkpoint of step "));
  CHECK_THAT(one.history(), Catch::Contains("it would stop the job once more"));  // no comparison at the end
  CHECK(one.running_plan() == "best");
}

TEST_CASE("files that do not rest in the folder of checkpoints are named, once", "[checkpoints]") {
  FakeWorld one = users_world();
  one.faults.saves_at_stop = false;
  one.faults.saves_every = 50;
  one.faults.restless = "/checkpoints/steps.bin";
  one.begin();
  REQUIRE(one.run([&] { return is_final(one.state().phase) || trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(one.kills.empty());
  CHECK(loses_nothing(one));
  const std::string told = one.history();
  const std::string words = "/checkpoints/steps.bin last. Trials wait for one";
  REQUIRE(told.find(words) != std::string::npos);
  CHECK(told.find(words) == told.rfind(words));
}

TEST_CASE("a job that writes no checkpoint is not stopped, and that is said", "[checkpoints]") {
  FakeWorld one = users_world();
  one.faults.saves_at_stop = false;
  one.begin();
  REQUIRE(one.run([&] { return is_final(one.state().phase) || trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(one.kills.empty());
  CHECK(loses_nothing(one));
  CHECK_THAT(one.history(), Catch::Contains("a trial waits for the job's next checkpoint in /checkpoints"));
  CHECK_THAT(one.state().conclusion, Catch::Contains("wrote no checkpoint in time"));
}

TEST_CASE("a job that begins at its first step instead of its checkpoint is stopped once, and never again",
          "[checkpoints]") {
  FakeWorld one = users_world();
  one.faults.resumes = false;
  one.faults.saves_at_stop = false;
  one.faults.saves_every = 50;
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(one.state().stops.stops == 1);
  REQUIRE(one.state().trials.size() == 1);
  CHECK(one.state().trials.front().reason == FailureReason::kNotResumed);
  CHECK(one.state().failed_hashes.empty());
  CHECK_THAT(one.history(), Catch::Contains("the job does not go on from its checkpoint in /checkpoints"));
  CHECK_THAT(one.history(), Catch::Contains("are trained again"));
  CHECK(one.running_plan() == "initial");
  CHECK(one.variant().empty());
}

TEST_CASE(
    "a job that saves when it is asked to end is found out at its first stop, and may then be stopped at any time",
    "[checkpoints]") {
  FakeWorld one = users_world();
  one.faults.saves_every = 50;
  one.faults.saves_settle = 1;
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one) && was_tried(one); }, 100000));
  INFO(one.history());
  CHECK(one.state().stops.saves_at_stop);
  CHECK(loses_nothing(one));
}

TEST_CASE("the steps of a checkpoint that takes time to settle are trained again, and that is told", "[checkpoints]") {
  FakeWorld one = users_world();
  one.faults.saves_at_stop = false;
  one.faults.saves_every = 50;
  one.faults.saves_settle = 2;
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one) && was_tried(one); }, 100000));
  INFO(one.history());
  CHECK_THAT(one.history(), Catch::Contains(": 2 steps are trained again"));
  CHECK(one.state().stops.refused.empty());
}

TEST_CASE("a checkpoint that is noticed a moment late is still the one that the job goes on from", "[checkpoints]") {
  FakeWorld one = users_world();
  one.faults.saves_at_stop = false;
  one.faults.saves_every = 50;
  one.faults.saves_noticed = 2;
  one.faults.saves_settle = 4;
  one.begin();
  REQUIRE(one.run([&] { return trains_on(one) && was_tried(one); }, 100000));
  INFO(one.history());
  CHECK(one.state().stops.refused.empty());
}

TEST_CASE("with approval asked for, the question comes at once and the stop after the next checkpoint",
          "[checkpoints]") {
  FakeWorld one = users_world(true, JobMode::kApprove);
  one.faults.saves_at_stop = false;
  one.faults.saves_every = 400;
  one.begin();
  REQUIRE(one.run([&] { return one.state().doing == Doing::kAwaitingApproval; }, 100000));
  one.feed(Order::kApprove);
  CHECK(one.kills.empty());
  REQUIRE(one.run([&] { return one.state().stops.stops == 1; }, 100000));
  CHECK(one.state().stops.stopped_step % 400 == 0);
}

namespace {

const CopyPrice kCheap{12, Bytes{3} << 30, 4000, false, "", ""};
const CopyPrice kRefused{31, Bytes{3} << 40, 9e6, false, "", "a trial would copy 3.00 TiB and may copy 512 GiB"};

FakeWorld world_with(const CopyPrice& copy, JobMode mode = JobMode::kAuto) {
  FakeWorld one = users_world(true, mode);
  one.faults.saves_at_stop = false;
  one.faults.saves_every = 50;
  one.faults.copy = copy;
  one.begin();
  return one;
}

}  // namespace

TEST_CASE("what a trial copies of the checkpoint is told before the first one", "[checkpoints]") {
  FakeWorld one = world_with(kCheap);
  REQUIRE(one.run([&] { return one.state().stops.stops == 1; }, 100000));
  const std::string history = one.history();
  const auto told = history.find("copies of the checkpoint in /checkpoints: 3.00 GiB in 12 files takes about 4000 ms");
  INFO(history);
  REQUIRE(told != std::string::npos);
  CHECK(told < history.find("the job is stopped after step"));
  CHECK(parse_tuning_state(to_json(one.state())).value().stops.copy_ms == 4000);
  REQUIRE(one.run([&] { return trains_on(one) && was_tried(one); }, 100000));
}

TEST_CASE("a checkpoint that an agent refuses to copy is not tried from, and the figure is told", "[checkpoints]") {
  FakeWorld one = world_with(kRefused);
  REQUIRE(one.run([&] { return trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(one.kills.empty());
  CHECK(loses_nothing(one));
  CHECK(one.state().recommendation_json == "best");
  CHECK_THAT(one.state().conclusion, Catch::Contains("on node n") && Catch::Contains("would copy 3.00 TiB"));
  CHECK(parse_tuning_state(to_json(one.state())).value().stops.copy_refused == one.state().stops.copy_refused);
}

TEST_CASE("what copies take counts into what trials may cost, and a trial beyond that is not begun", "[checkpoints]") {
  CopyPrice slow = kCheap;
  slow.ms = 9e6;
  slow.store = "fuse.s3fs at /mnt";
  FakeWorld one = world_with(slow);
  REQUIRE(one.run([&] { return trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(one.kills.empty());
  CHECK(one.state().recommendation_json == "best");
  CHECK_THAT(one.state().conclusion,
             Catch::Contains("each launch copies the checkpoint: 3.00 GiB in 12 files of the object store fuse.s3fs at "
                             "/mnt takes about 150.0 min"));
  CHECK_THAT(one.history(), Catch::Contains("A trial of it needs a job of "));
}

TEST_CASE("a trial that was approved before its copy was priced is withdrawn where that is refused", "[checkpoints]") {
  FakeWorld one = world_with(kRefused, JobMode::kApprove);
  REQUIRE(one.run([&] { return one.state().doing == Doing::kAwaitingApproval; }, 100000));
  one.feed(Order::kApprove);
  REQUIRE(one.run([&] { return trains_on(one); }, 100000));
  INFO(one.history());
  CHECK(one.kills.empty());
  REQUIRE(one.state().trials.size() == 1);
  CHECK(one.state().trials.front().reason == FailureReason::kWithdrawn);
  CHECK(one.state().failed_hashes.empty());
  CHECK_THAT(one.state().conclusion, Catch::Contains("would copy 3.00 TiB"));
}
