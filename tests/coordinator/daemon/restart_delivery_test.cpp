// Jobs whose plan is changed by a new launch: trials run apart, from a copy, and the job loses no step to them.

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "../fake_world.hpp"
#include "jobs/job_table.hpp"
#include "schema/plan.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Job restarted_job() {
  Job job = fake_job();
  job.delivery = Delivery::kRestart;
  job.checkpoint = "/checkpoints";
  job.train = {"train", "{checkpoint}"};
  job.steps = 4000;
  return job;
}

std::vector<FakePlan> three_plans() {
  return {{"initial", 100, 110}, {"best", 70, 80}, {"worse", 120, 75}};
}

FakeWorld world(Job job = restarted_job(), std::uint64_t seed = 7) {
  return FakeWorld(std::move(job), three_plans(), seed, 0.03);
}

const Trial* trial_of(const FakeWorld& of, const std::string& plan) {
  for (const Trial& one : of.state().trials) {
    if (one.plan.hash == plan) return &one;
  }
  return nullptr;
}

// Whatever happened, each step of the job was trained once, in order.
void check_no_step_lost(const FakeWorld& one) {
  const std::vector<std::int64_t>& steps = one.own_steps();
  REQUIRE_FALSE(steps.empty());
  CHECK(steps.front() == 1);
  const auto gap = std::adjacent_find(steps.begin(), steps.end(), [](auto a, auto b) { return b != a + 1; });
  CHECK(gap == steps.end());
}

}  // namespace

TEST_CASE("a restarted job whose launches alone cost more than trials may has no trial") {
  Job job = restarted_job();
  job.steps = 600;
  job.trials.overhead = 0.02;
  FakeWorld one = world(job);
  one.begin();
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().trials.empty());
  CHECK(one.launches() == 1);
  CHECK_THAT(one.history(), Catch::Contains("of the job's time (trials.overhead)"));
}

TEST_CASE("a plan that trials.overhead leaves no room for is named, with the steps that a trial of it needs") {
  Job job = restarted_job();
  job.steps = 600;
  job.trials.overhead = 0.02;
  job.trials.stop_after = false;
  FakeWorld one = world(job);
  one.begin();
  REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining; }, 100000));
  INFO(one.history());
  CHECK(one.state().trials.empty());
  CHECK(one.state().recommendation_json == "worse");  // The model believes so: nothing has been tried.
  const std::string words = "A trial of it needs a job of ";
  const auto at = one.history().find(words);
  REQUIRE(at != std::string::npos);
  CHECK_THAT(one.history(), Catch::Contains("steps (it has 600), or trials.overhead = 0."));
  // What is told is enough.
  job.steps = std::stoll(one.history().substr(at + words.size())) + 20;
  CHECK(job.steps > 600);
  FakeWorld longer = world(job);
  longer.begin();
  REQUIRE(longer.run([&] { return longer.state().phase == Phase::kTraining; }, 1000000));
  INFO(longer.history());
  CHECK_FALSE(longer.state().trials.empty());
}

// What a change of plan takes is not known before the first one: a quarter is left for that.
TEST_CASE("a restarted job is stopped for no trial that trials.overhead ends before its plan could be adopted") {
  Job job = restarted_job();
  job.steps = 3000;
  job.trials.stop_after = false;
  for (const bool saves : {true, false}) {
    int named = 0;
    int adopted = 0;
    double least = 0;  // share with which a trial is begun
    for (int share = 5; share < 60; share += 3) {
      job.trials.overhead = share / 1000.0;
      FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}}, 7, 0.01);
      one.faults.saves_at_stop = saves;
      one.faults.saves_every = saves ? 0 : 50;
      if (!saves) one.forget_stops();
      if (!saves) one.allow_restarts(true);
      one.begin();
      REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining; }, 100000));
      INFO("trials.overhead " << job.trials.overhead << "\n" << one.history());
      if (one.state().trials.empty()) {
        ++named;
        CHECK(least == 0);
        CHECK(one.state().recommendation_json == "best");
        CHECK(one.kills.empty());
        CHECK_THAT(one.history(), Catch::Contains("with the two pairs of blocks that adopting a plan takes"));
        continue;
      }
      if (least == 0) least = job.trials.overhead;
      if (job.trials.overhead < 1.25 * least) continue;
      ++adopted;
      CHECK(one.state().trials.front().state == TrialState::kAdopted);
    }
    CHECK(named > 4);
    CHECK(adopted > 2);
  }
}

TEST_CASE("a plan whose trial failed is not recommended, though nobody blames it") {
  Job job = restarted_job();
  job.steps = 2000;
  job.trials.stop_after = false;
  int left = 0;
  for (int share = 40; share < 80; share += 2) {
    job.trials.overhead = share / 1000.0;
    FakeWorld one(job, {{"initial", 100, 110}, {"best", 70, 80}}, 7, 0.01);
    one.begin();
    const bool tries = one.run(
        [&] {
          return one.state().phase == Phase::kTraining || (one.variant() == "trial" && one.running_plan() == "best");
        },
        100000);
    REQUIRE(tries);
    if (one.variant() != "trial") continue;  // nothing is tried with so little
    one.restart_coordinator(true);
    REQUIRE(one.run([&] { return one.state().phase == Phase::kTraining; }, 100000));
    INFO("trials.overhead " << job.trials.overhead << "\n" << one.history());
    CHECK(one.state().trials.front().reason == FailureReason::kCoordinatorRestarted);
    if (one.state().trials.size() > 1) continue;  // it was tried once more
    ++left;
    CHECK(one.state().recommendation_json.empty());
    CHECK_THAT(one.history(), Catch::Contains("a plan whose trial failed is not tried again"));
  }
  CHECK(left > 0);
}

TEST_CASE("a restarted job adopts the faster plan, and trains each of its steps once") {
  FakeWorld one = world();
  bool apart = false;
  one.after_event = [&] { apart = apart || one.variant() == "trial"; };
  one.begin();
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(apart);
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "best");
  REQUIRE(trial_of(one, "best") != nullptr);
  CHECK(trial_of(one, "best")->state == TrialState::kAdopted);
  // What a launch costs is part of what a plan must gain.
  CHECK(trial_of(one, "best")->switch_ms >= 700);
  CHECK(trial_of(one, "worse")->state == TrialState::kRejected);
  CHECK(one.state().compared);
  check_no_step_lost(one);
}

TEST_CASE("a trial's launch that crashes or hangs leaves the job where it was") {
  for (const bool hang : {false, true}) {
    FakeWorld one = world();
    (hang ? one.faults.hang : one.faults.crash) = {"worse"};
    one.begin();
    const bool ended = one.run([] { return false; }, 100000);
    INFO((hang ? "hang" : "crash") << "\n" << one.history());
    REQUIRE(ended);
    const Trial* failed = trial_of(one, "worse");
    REQUIRE(failed != nullptr);
    CHECK(failed->state == TrialState::kFailed);
    CHECK(failed->reason == (hang ? FailureReason::kHang : FailureReason::kCrash));
    CHECK(one.state().incumbent.hash == "best");
    CHECK(one.state().phase == Phase::kFinished);
    check_no_step_lost(one);
  }
}

TEST_CASE("a trial's launch that runs out of memory teaches what its plan needs") {
  FakeWorld one = world();
  one.faults.out_of_memory = {"worse"};
  one.begin();
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  const Trial* failed = trial_of(one, "worse");
  REQUIRE(failed != nullptr);
  CHECK(failed->state == TrialState::kFailed);
  CHECK(failed->reason == FailureReason::kOutOfMemory);
  CHECK_THAT(failed->message, Catch::Contains("rank 1: CUDA out of memory"));
  // No search offers one that needs as much.
  const std::vector<TooBig> too_big = one.search_task().too_big;
  REQUIRE(too_big.size() == 1);
  CHECK(too_big.front().plan.json == failed->plan.json);
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().phase == Phase::kFinished);
  check_no_step_lost(one);
}

TEST_CASE("a restarted trial goes on until it is sure, two blocks of a plan in one launch") {
  Job job = restarted_job();
  job.trials.minimum_gain = 0;
  FakeWorld one(job, {{"initial", 100, 110}, {"close", 97, 80}}, 7, 0.03);
  int launches_for_close = 0;
  std::uint64_t last = 0;
  one.after_event = [&] {
    const TuningState& state = one.state();
    const bool fresh = state.launch != std::exchange(last, state.launch);
    if (fresh && state.launch_variant == "trial" && state.launch_plan.hash == "close") ++launches_for_close;
  };
  one.begin();
  const bool ended = one.run([&] { return one.state().phase == Phase::kComparing; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  const Trial* trial = trial_of(one, "close");
  REQUIRE(trial != nullptr);
  CHECK(trial->state != TrialState::kFailed);
  CHECK(trial->measured.steps >= 2 * job.trials.measure_steps);
  CHECK(launches_for_close * 2 * job.trials.measure_steps <= trial->measured.steps + job.trials.measure_steps);
  // Launches and what they train are lost to the job.
  CHECK(trial->changes_ms >= 1400 * (launches_for_close + 1));
  CHECK(trial->excess_ms >= 90 * trial->measured.steps);
  check_no_step_lost(one);
}

TEST_CASE("a restarted trial's peaks are those of all its launches") {
  FakeWorld one(restarted_job(), {{"initial", 100, 110}, {"best", 70, 80}}, 7, 0.01);
  one.begin();
  REQUIRE(one.run([&] { return one.state().observations.size() == 2; }, 100000));
  INFO(one.history());
  const MeasuredPlan& best = one.state().observations.back();
  CHECK(best.plan.hash == "best");
  CHECK(best.peak_bytes == std::vector<double>{1000, 1000});
}

TEST_CASE("launches that take longer than ranks may be silent are measured all the same") {
  Job job = restarted_job();
  job.trials.deadline = std::chrono::seconds(1);
  FakeWorld one = world(job);
  one.begin();
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().incumbent.hash == "best");
  CHECK(trial_of(one, "best")->state == TrialState::kAdopted);
}

TEST_CASE("a node that is away for a moment, or a freeze, ends a restarted trial for good") {
  const bool freezes = GENERATE(false, true);
  int checked = 0;
  for (const Doing at : {Doing::kKilling, Doing::kLaunching, Doing::kMeasuring}) {
    FakeWorld one = world();
    one.begin();
    const auto in_trial = [&] {
      const bool launched = at == Doing::kKilling || one.variant() == "trial";
      return one.state().has_trial() && one.state().doing == at && launched;
    };
    REQUIRE(one.run(in_trial, 100000));
    const std::size_t trial = one.state().trials.size() - 1;
    one.after_event = [&] { checked += one.state().trials[trial].state == TrialState::kFailed ? 1 : -1000000; };
    if (freezes) {
      one.feed(Order::kFreeze);
      REQUIRE_FALSE(one.run([&] { return one.own_steps().size() > 300; }, 300));
      CHECK(one.state().trials.size() == trial + 1);
      CHECK(one.variant().empty());
      one.feed(Order::kUnfreeze);
    } else {
      one.lose_node("n1");
      one.return_node("n1");
    }
    const bool ended = one.run([] { return false; }, 100000);
    INFO(to_string(at) << "\n" << one.history());
    REQUIRE(ended);
    CHECK(checked > 0);
    CHECK(one.state().phase == Phase::kFinished);
    CHECK(one.state().incumbent.hash == "best");
    check_no_step_lost(one);
  }
}

TEST_CASE("a coordinator that ends in the middle of a restarted trial leaves a job that goes on") {
  int checked = 0;
  for (int transition = 5;; transition += 3) {
    FakeWorld one = world();
    one.begin();
    if (!one.run([&] { return one.transitions() >= transition; }, 100000)) break;
    if (is_final(one.state().phase)) break;
    one.restart_coordinator(transition % 2 == 0);
    const bool ended = one.run([] { return false; }, 100000);
    INFO("restarted at transition " << transition << "\n" << one.history());
    REQUIRE(ended);
    CHECK(one.state().phase == Phase::kFinished);
    CHECK(one.state().incumbent.hash == "best");
    check_no_step_lost(one);
    ++checked;
  }
  CHECK(checked > 10);
}

TEST_CASE("no trial is begun that the walltime has no room for") {
  Job job = restarted_job();
  job.walltime = std::chrono::seconds(6);
  FakeWorld one = world(job);
  one.begin();
  REQUIRE(one.run([&] { return !one.state().conclusion.empty(); }, 100000));
  INFO(one.history());
  CHECK(one.state().conclusion == "too little walltime is left for another trial");
  CHECK(one.state().trials.empty());
}

TEST_CASE("a restarted job that is stopped in a trial ends at once") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.variant() == "trial"; }, 100000));
  one.feed(Order::kStop);
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  CHECK(one.state().phase == Phase::kStopped);
  check_no_step_lost(one);
}

TEST_CASE("a restarted job must let its checkpoint be taken apart") {
  Job job = restarted_job();
  CHECK(check_job(job, true).ok());
  job.train = {"train"};
  const Status without = check_job(job, true);
  REQUIRE_FALSE(without.ok());
  CHECK_THAT(without.error().message, Catch::Contains("{checkpoint}"));
  job = restarted_job();
  job.checkpoint.clear();
  CHECK_FALSE(check_job(job, true).ok());
  job.mode = JobMode::kObserve;
  CHECK(check_job(job, true).ok());
  job.target = "megatorn";
  CHECK_THAT(check_job(job, true).error().message, Catch::Contains("did you mean 'megatron'"));
}

TEST_CASE("a restarted job may be elastic, but not one whose launches are a scheduler's") {
  Job job = restarted_job();
  job.elastic = true;
  CHECK(check_job(job, true).ok());
  job.submit = {"sbatch"};
  const Status refused = check_job(job, true);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("elastic") && Catch::Contains("the scheduler's to choose"));
}

TEST_CASE("an elastic job's snapshots are where all nodes reach them") {
  Job job = fake_job();
  job.elastic = true;
  for (const std::string folder : {"{scratch}/snapshots", "{scratch}"}) {
    for (const bool one_word : {false, true}) {
      job.train = {"train"};
      if (one_word) job.train.push_back("--snapshots=" + folder);
      if (!one_word) job.train.insert(job.train.end(), {"--snapshots", folder});
      job.elastic = true;
      const Status refused = check_job(job, true);
      REQUIRE_FALSE(refused.ok());
      CHECK_THAT(refused.error().message, Catch::Contains("a folder that all nodes share, not {scratch}"));
      job.elastic = false;
      CHECK(check_job(job, true).ok());
    }
  }
  job.elastic = true;
  job.train = {"train", "--snapshots", "/shared/snapshots", "--log", "{scratch}/steps.jsonl"};
  CHECK(check_job(job, true).ok());
}

TEST_CASE("a job that allows exact changes alone has no knob that rounds") {
  Job job = fake_job();
  job.change_class = "exact";
  const auto refusal = [&job] {
    const Status status = check_job(job, true);
    return status.ok() ? std::string() : status.error().message;
  };
  CHECK_THAT(refusal(), Catch::Contains("class \"exact\"") && Catch::Contains("microbatch, data_parallel;"));
  job.knobs.microbatch = job.knobs.data_parallel = false;
  CHECK(refusal().empty());
  for (bool Knobs::*const knob : {&Knobs::sliced_microbatches, &Knobs::tensor_parallel, &Knobs::sharded,
                                  &Knobs::sub_batches, &Knobs::memory_switches}) {
    job.knobs.*knob = true;
    CHECK_FALSE(refusal().empty());
    job.knobs.*knob = false;
  }
  // What the target does not honour is no knob.
  job.target = "deepspeed";
  job.knobs.tensor_parallel = true;
  // Its ranks are replicas, whatever the job says.
  CHECK_THAT(refusal(), Catch::Contains("data_parallel") && !Catch::Contains("tensor_parallel"));
  job.target.clear();
  CHECK_THAT(refusal(), Catch::Contains("tensor_parallel"));
  job.knobs.tensor_parallel = false;

  // What the plan has that the job begins with, no other plan can keep.
  Plan plan;
  plan.stages = {Stage{}};
  plan.stages[0].segments = {Segment{}};
  plan.stages[0].devices = {0};
  plan.stages[0].segments[0].operators = {0, 2};
  plan.model = "toy";
  plan.global_batch = plan.microbatch = 4;
  job.initial_plan_json = to_json(plan);
  CHECK(refusal().empty());
  plan.stages[0].segments[0].dp = 2;
  plan.stages[0].devices = {0, 1};
  job.initial_plan_json = to_json(plan);
  CHECK_THAT(refusal(), Catch::Contains("its initial plan has replicas"));
  job.mode = JobMode::kObserve;
  CHECK(refusal().empty());
  job.mode = JobMode::kAuto;
  job.change_class = "rounding";
  CHECK(refusal().empty());
}

TEST_CASE("a job's strategy is one of the tuner's, and goes with its target") {
  Job job;
  job.name = "j";
  job.benchmark = job.describe = job.train = {"x"};
  job.steps = 1;
  const auto refusal = [&job](const char* strategy, const char* target) {
    job.strategy = strategy;
    job.target = target;
    const Status status = check_job(job, true);
    return status.ok() ? std::string() : status.error().message;
  };
  CHECK(refusal("", "") == "");
  CHECK(refusal("unified", "") == "");
  CHECK(refusal("unified", "trainer") == "");
  CHECK(refusal("target", "ddp") == "");
  CHECK_THAT(refusal("unifed", ""), Catch::Contains("unified, ") && Catch::Contains("found 'unifed'"));
  CHECK_THAT(refusal("unified", "ddp"), Catch::Contains("plans of a target are found by strategy 'target'"));
  CHECK_THAT(refusal("target", ""), Catch::Contains("does not go with target = ''"));
}

TEST_CASE("a job that its agents have brought back from a trial goes on under the coordinator that returns") {
  const bool restarted = GENERATE(false, true);
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.variant() == "trial" && one.running_plan() == "best"; }, 100000));
  const std::uint64_t launch = one.state().launch;
  const std::size_t trained = one.own_steps().size();
  for (const char* node : {"n0", "n1"}) one.lose_node(node);
  one.bring_back();
  REQUIRE(one.run([&] { return one.own_steps().size() >= trained + 50; }, 1000));
  if (restarted) {
    one.restart_coordinator(true);
  } else {
    for (const char* node : {"n0", "n1"}) one.return_node(node);
  }
  const bool ended = one.run([] { return false; }, 100000);
  INFO(one.history());
  REQUIRE(ended);
  const auto own = [&](const KillOn& kill) { return kill.launch == launch + 1 && kill.variant.empty(); };
  CHECK(std::ranges::count_if(one.kills, own) >= 2);
  CHECK(one.state().phase == Phase::kFinished);
  CHECK(one.state().incumbent.hash == "best");
  CHECK(one.state().crashes.empty());
  check_no_step_lost(one);
}

TEST_CASE("what a restart takes is told by its phases, and their sum is what it takes") {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run([&] { return one.state().incumbent.hash == "best"; }, 100000));
  const Trial& trial = *trial_of(one, "best");
  const ChangePhases& phases = trial.change_phases;
  CHECK(phases.stop_ms > 0);
  CHECK(phases.copy_ms >= 1400);  // both nodes' launches, one after the other
  CHECK(phases.groups_ms == Approx(0.5));
  CHECK(phases.first_step_ms > 0);
  double sum = 0;
  for (const auto& [name, ms] : phases.named()) sum += ms;
  CHECK(sum == Approx(trial.switch_ms));
  const auto decided = [&](const Decision& one_of) { return one_of.why.find("copy 1") != std::string::npos; };
  CHECK(std::ranges::any_of(one.decisions, decided));
}
