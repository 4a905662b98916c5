// What seldom happens: measurements that cannot be, budgets that are used up, answers that never come, machines that
// wander for ever.

#include "../small_cluster.hpp"
#include "recorded_machine.hpp"
#include "schema/cluster.hpp"
#include "story.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

std::vector<Probe> link_of(double ms) {
  return {{-1, "n0", "n1", "inter_node", ms}};
}

void train(Story& story) {
  story.begin();
  story.run_to_training();
  story.skip();
}

// Steps that all ranks but the last tell of.
void steps_without_the_last(RecordedMachine& machine, int count) {
  const TuningState& state = machine.state();
  for (std::int64_t step = 1000; step < 1000 + count; ++step) {
    for (std::int32_t rank = 0; rank + 1 < state.world_size(); ++rank) {
      machine.feed(FromRank{rank, state.launch, RankStep{step, state.launch_epoch, 100, 1, "", 0}});
    }
    machine.pass(std::chrono::seconds(1));
  }
}

void bring_up(RecordedMachine& machine) {
  const std::vector<NodeShare> nodes = machine.state().nodes;
  machine.resume();
  for (const NodeShare& share : nodes) machine.come_back(share.node);
  machine.steps(3, 100);
}

TuningState in_trials(TuningState state) {
  state.phase = Phase::kTrials;
  state.hardware.probed_plan_hash = "all";
  return state;
}

}  // namespace

TEST_CASE("transcript of step times that cannot be", "[transcripts]") {
  Story story("corrupt-measurement", training_job(600), plans_of_story());
  story.world.faults.clock["worse"] = 1e9;
  story.begin();
  story.run_until([&] { return story.state().trials_begun() >= 2; });
  story.check();
}

TEST_CASE("transcripts of a rank that tells of no step, in a trial and at the begin", "[transcripts]") {
  RecordedMachine trial("no-measurement", in_trials(trained_state(fake_job(), 2)), {{SearchFor::kJob, {"faster", 50}}});
  bring_up(trial);
  steps_without_the_last(trial, 30);
  trial.check();
  TuningState state = trained_state(fake_job(), 2);
  state.phase = Phase::kMeasuring;
  RecordedMachine initial("no-measurement-of-the-initial-plan", state);
  bring_up(initial);
  steps_without_the_last(initial, 30);
  initial.check();
}

TEST_CASE("transcript of ranks that run another plan in the middle of a trial", "[transcripts]") {
  Story story("unexpected-plan", training_job(600), two_plans_of_story());
  story.begin();
  story.run_to_trial();
  story.skip();
  const std::int64_t step = story.state().step;
  for (std::int64_t next = step + 100; next < step + 103; ++next) {
    for (int rank = 0; rank < 2; ++rank) {
      story.feed(FromRank{rank, story.state().launch, RankStep{next, story.state().launch_epoch, 100, 1, "", 0}});
    }
  }
  story.run_until([&] { return !story.state().has_trial(); });
  story.check();
}

TEST_CASE("transcripts of budgets that a trial or a comparison uses up", "[transcripts]") {
  Job job = training_job(600);
  job.trials.overhead = 0.02;
  Story trial("overhead-in-trial", job, {{"initial", 100, 110}, {"slow", 1200, 75}}, 5, 0.001);
  trial.begin();
  trial.run_to_end_of_trials();
  trial.check();
  job.trials.overhead = 0.04;
  Story comparison("overhead-in-comparison", job, two_plans_of_story(), 5, 0.001);
  comparison.world.after_event = [&] {
    if (comparison.state().phase == Phase::kComparing) comparison.world.faults.warmup = 20;
  };
  comparison.begin();
  comparison.run_to_training();
  comparison.check();
}

TEST_CASE("transcript of a plan that is taken to have crashed, and a node that was lost then", "[transcripts]") {
  Story story("blamed-for-a-node", training_job(600), plans_of_story());
  story.world.faults.crash = {"worse"};
  story.begin();
  story.run_until([&] { return !story.state().failed_hashes.empty(); });
  story.world.lose_node("n1");
  story.run_rounds(5);
  story.world.return_node("n1");
  story.run_until([&] { return story.state().trials_begun() >= 2; });
  story.check();
}

TEST_CASE("transcripts of jobs that end before their tuning, and of an untuned run that always fails",
          "[transcripts]") {
  Story early("ends-early", training_job(20), two_plans_of_story());
  early.begin();
  early.run_to_end();
  early.check();
  Story untuned("untuned-fails", fake_job(), two_plans_of_story());
  untuned.begin();
  untuned.run_until([&] { return untuned.state().untuned_losses.size() == 5; });
  untuned.skip();
  untuned.world.faults.crash_always = true;
  untuned.run_to_end();
  untuned.check();
}

TEST_CASE("transcripts of a node that is lost when tuning is over, and of a stop that nobody confirms",
          "[transcripts]") {
  for (const Phase last : {Phase::kStopping, Phase::kUntuned}) {
    Story story("node-lost-" + std::string(to_string(last)), fake_job(), two_plans_of_story());
    story.begin();
    story.run_to_phase(last);
    story.skip();
    story.world.lose_node("n1");
    story.run_to_end();
    story.check();
  }
  RecordedMachine machine("stop-not-confirmed", trained_state(fake_job(), 2));
  bring_up(machine);
  machine.feed(Order::kStop);
  machine.tick(30);
  machine.check();
}

TEST_CASE("transcript of a node that comes back with its ranks when the job goes on without it", "[transcripts]") {
  for (const Delivery delivery : {Delivery::kLive, Delivery::kRestart}) {
    Job job = fake_job();
    job.elastic = true;
    job.delivery = delivery;
    const std::string name = delivery == Delivery::kLive ? "strays" : "strays-of-restarted";
    RecordedMachine machine(name, trained_state(job, 3), {{SearchFor::kSpare, {"spare", 200}}});
    bring_up(machine);
    machine.feed(NodeLost{"n2"});
    machine.tick(10);
    machine.feed(NodeBack{"n2", {{2, 1, 1}}});
    machine.carry_out();
    machine.feed(NodeBack{"n2", {}});
    machine.steps(3, 140);
    machine.check();
  }
}

TEST_CASE("transcripts of jobs that begin on mixed hardware, and whose costs change with it", "[transcripts]") {
  Cluster cluster;
  cluster.nodes.push_back({"n0", "first", 1, 1000, 0});
  cluster.nodes.push_back({"n1", "second", 1, 1000, 0});
  TuningState state;
  state.job = fake_job();
  RecordedMachine begins("mixed-hardware", state);
  begins.begin();
  begins.feed(NodesReady{{{"n0", 0, 1}, {"n1", 1, 1}}, cluster, "first"});
  begins.feed(CommandFinished{"describe", true, "", "{}"});
  begins.feed(CostsCounted{1, 9, {"{}"}, {9}, "a", "", {{"n1", 0.9}}});
  begins.carry_out();
  begins.feed(CostsCounted{10, 0, {}, {}, "", "", {{"n1", 0.4}}});
  begins.check();
  state = trained_state(fake_job(), 2);
  state.cluster = cluster;
  state.fingerprint = "first of the job";
  state.hardware.costs_hardware = "first";
  state.hardware.slow_devices = {{0, 0.9}, {1, 0.5}};
  RecordedMachine trains("mixed-hardware-changes", state);
  trains.resume();
  trains.come_back("n0", "first");
  trains.come_back("n1", "second");
  trains.steps(3, 100);
  trains.come_back("n0", "second");
  trains.carry_out();
  trains.feed(CostsCounted{3, 0, {}, {}, "", ""});
  trains.carry_out();
  trains.steps(30, 140);
  trains.check();
}

TEST_CASE("transcript of a machine that wanders between levels that tuning has seen", "[transcripts]") {
  Story story("wanders", training_job(20'000), plans_of_story(), 5, 0.01);
  story.world.faults.probes = link_of(10);
  train(story);
  story.run_steps(100);
  story.world.after_event = [&] { story.world.faults.slowdown = story.state().step / 700 % 2 == 0 ? 1.5 : 1; };
  story.run_until([&] { return story.state().step >= 6000; });
  story.check();
}

TEST_CASE("transcript of a job whose steps change for ever", "[transcripts]") {
  Story story("changes-for-ever", training_job(12'000), plans_of_story(), 5, 0.01);
  story.world.faults.probes = link_of(10);
  train(story);
  story.run_steps(100);
  story.world.after_event = [&] {
    story.world.faults.slowdown = story.state().step / 150 % 2 == 0 ? 1.5 : 1;
    story.world.faults.probes.back().ms = 10 * story.world.faults.slowdown;
  };
  story.run_until([&] { return story.state().step >= 8000; });
  story.skip();
  story.run_to_end();
  story.skip();
  story.check();
}

TEST_CASE("transcripts of what looks find slower: nothing is to be gained, and it recovers", "[transcripts]") {
  Job job = training_job(8000);
  job.trials.look_every = std::chrono::seconds(5);
  Story story("slower-changes-nothing", job, two_plans_of_story(), 5, 0.01);
  story.world.faults.probes = link_of(10);
  train(story);
  story.run_steps(600);
  story.world.faults.probes = link_of(25);
  story.run_steps(800);
  story.world.faults.probes = link_of(10);
  story.run_steps(800);
  story.check();

  job.trials.look_every = std::chrono::seconds(1);
  Story late("baseline-too-late", job, two_plans_of_story(), 5, 0.01);
  train(late);
  late.run_steps(100);
  late.world.faults.slowdown = 1.5;
  late.run_steps(2);
  late.world.faults.probes = link_of(25);
  late.run_until([&] { return late.state().hardware.retuned_step > 0; });
  late.check();
}

TEST_CASE("transcript of a drift for which too few steps are left", "[transcripts]") {
  Story story("drift-too-late", training_job(400), two_plans_of_story(), 5, 0.01);
  train(story);
  story.run_until([&] { return story.state().step >= 330; });
  story.world.faults.slowdown = 1.5;
  story.run_to_end();
  story.check();
}
