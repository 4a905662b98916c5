// Nodes that are lost for good, that join, and that come back as other hardware; and profiling.

#include <catch2/catch.hpp>

#include "../fake_world.hpp"
#include "../small_cluster.hpp"
#include "recorded_machine.hpp"
#include "schema/cluster.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using trimtab::coordinator::test::cluster_of;

namespace {

Job elastic_job(JobMode mode = JobMode::kAuto) {
  Job job = fake_job(mode);
  job.elastic = true;
  return job;
}

// All nodes are there and train.
void bring_up(RecordedMachine& machine) {
  const std::vector<NodeShare> nodes = machine.state().nodes;
  machine.resume();
  for (const NodeShare& share : nodes) machine.come_back(share.node);
  machine.steps(3, 100);
}

void lose_for_good(RecordedMachine& machine, const std::string& node) {
  machine.feed(NodeLost{node});
  machine.tick(10);
}

// Two ranks train, of three that the job asked for.
TuningState small_state() {
  TuningState state = trained_state(elastic_job(), 2);
  state.job.world_size = 3;
  state.ranks = 2;
  return state;
}

const RecordedMachine::Found kGrows = {{SearchFor::kSpare, {"", 0}}, {SearchFor::kMoreNodes, {"large", 60}}};

void offer(RecordedMachine& machine, const std::string& refusal = "") {
  machine.feed(NodesOffered{{{"n0", 0, 1}, {"n1", 1, 1}, {"n2", 2, 1}}, cluster_of(3), "n2", {}, "", refusal});
}

// The first steps on more nodes, until it is decided.
void measure(RecordedMachine& machine, double ms) {
  for (int i = 0; i < 60 && !machine.state().elastic.before.nodes.empty(); ++i) machine.steps(1, ms);
  machine.carry_out();
  machine.steps(2, 100);
}

Cluster two_nodes(const std::string& fingerprint_of_n1) {
  Cluster two;
  two.nodes.push_back({"n0", "first", 1, 1000, 0});
  two.nodes.push_back({"n1", fingerprint_of_n1, 1, 1000, 0});
  return two;
}

// Costs are of n0's hardware.
TuningState hardware_state(const std::string& fingerprint_of_n1 = "first") {
  TuningState state = trained_state(fake_job(), 2);
  state.cluster = two_nodes(fingerprint_of_n1);
  state.fingerprint = "first of the job";
  state.hardware.costs_hardware = "first";
  state.calibration_json = state.earlier_calibration_json = "{}";
  state.hardware.slow_devices = {{0, 0.9}, {1, 0.5}};
  return state;
}

void bring_up_hardware(RecordedMachine& machine) {
  machine.resume();
  machine.come_back("n0", "first");
  machine.come_back("n1", "first");
  machine.steps(3, 100);
}

const CostsCounted kNoneKnown{0, 3, {"{}"}, {3}, "a, b", ""};
const CostsCounted kAllKnown{3, 0, {}, {}, "", ""};

}  // namespace

TEST_CASE("transcripts of a node that is lost for good, by mode", "[transcripts]") {
  for (const JobMode mode : {JobMode::kObserve, JobMode::kRecommend, JobMode::kAuto}) {
    RecordedMachine machine("spare-" + std::string(to_string(mode)), trained_state(elastic_job(mode), 3),
                            {{SearchFor::kSpare, {"spare", 200}}});
    bring_up(machine);
    lose_for_good(machine, "n2");
    machine.carry_out();
    machine.steps(30, 140);
    machine.check();
  }
}

TEST_CASE("transcript of a node that is waited for, and of one that is slow and lost", "[transcripts]") {
  TuningState state = trained_state(elastic_job(), 3);
  state.hardware.slow_devices = {{0, 0.5}};
  RecordedMachine machine("spare-of-a-slow-node", state, {{SearchFor::kSpare, {"spare", 200}}});
  bring_up(machine);
  machine.feed(NodeLost{"n0"});
  machine.tick(3);
  machine.come_back("n0");
  lose_for_good(machine, "n0");
  machine.carry_out();
  machine.steps(30, 140);
  machine.check();
}

TEST_CASE("transcript of a restarted elastic job that loses a node in a trial's launch", "[transcripts]") {
  Job job = elastic_job();
  job.delivery = Delivery::kRestart;
  job.allow_restarts = true;
  TuningState state = trained_state(job, 3);
  state.phase = Phase::kTrials;
  state.stops.saves_at_stop = true;
  state.hardware.probed_plan_hash = "all";
  RecordedMachine machine("spare-in-restarted-trial", state,
                          {{SearchFor::kSpare, {"spare", 50}}, {SearchFor::kJob, {"faster", 50}}});
  bring_up(machine);
  for (int i = 0; i < 100 && machine.state().doing != Doing::kKilling; ++i) machine.steps(1, 100);
  machine.carry_out(CommandKind::kKill);
  machine.carry_out(CommandKind::kLaunch);
  machine.steps(2, 50);
  lose_for_good(machine, "n2");
  machine.carry_out(CommandKind::kKill);
  machine.carry_out(CommandKind::kLaunch);
  machine.steps(30, 100);
  machine.check();
}

TEST_CASE("transcripts of a node that joins and is kept, left, or lost again", "[transcripts]") {
  RecordedMachine kept("growth-kept", small_state(), kGrows);
  bring_up(kept);
  offer(kept, "it is another machine");
  offer(kept);
  kept.carry_out();
  measure(kept, 62);
  kept.check(true);

  RecordedMachine left("growth-left", small_state(), kGrows);
  bring_up(left);
  offer(left);
  left.carry_out();
  measure(left, 130);
  left.check();

  RecordedMachine crashes("growth-crashes", small_state(), kGrows);
  bring_up(crashes);
  offer(crashes);
  crashes.carry_out();
  for (int i = 0; i < 2; ++i) {
    crashes.feed(FromRank{2, crashes.state().launch, RankExited{1, 0, "no"}});
    crashes.carry_out();
  }
  crashes.steps(2, 100);
  crashes.check();

  RecordedMachine lost("growth-lost", small_state(), kGrows);
  bring_up(lost);
  offer(lost);
  lost.carry_out();
  lost.feed(NodeLost{"n2"});
  lost.feed(Tick{});
  lost.carry_out();
  lost.steps(2, 100);
  lost.check();
}

TEST_CASE("transcripts of nodes that do not pay, or nobody may use", "[transcripts]") {
  RecordedMachine dear("growth-too-dear", small_state(),
                       {{SearchFor::kSpare, {"", 0}}, {SearchFor::kMoreNodes, {"large", 101}}});
  bring_up(dear);
  offer(dear);
  dear.feed(Order::kFreeze);
  dear.check();
  TuningState state = small_state();
  state.job.mode = JobMode::kApprove;
  RecordedMachine asks("growth-not-allowed", state, kGrows);
  bring_up(asks);
  offer(asks);
  asks.check();
}

TEST_CASE("transcript of a node that comes back as other hardware, and is probed", "[transcripts]") {
  RecordedMachine machine("other-hardware", hardware_state(), {});
  bring_up_hardware(machine);
  machine.feed(NodeLost{"n1"});
  machine.come_back("n1", "second", false);
  machine.carry_out();
  machine.steps(60, 140);
  machine.feed(SearchFinished{machine.state().search.searches, SearchReply{}});
  const auto probe = [](std::int32_t device, double ms, const std::string& work) {
    return Probe{device, "n" + std::to_string(device), "", "", ms, work};
  };
  machine.feed(HardwareProbed{{probe(0, 10, "computation"), probe(1, 25, "computation"),
                               probe(0, 30, training_work("all")), probe(1, 50, training_work("all"))},
                              "",
                              "all"});
  machine.check();
}

TEST_CASE("transcript of costs that are measured anew where all hardware is other, with a coordinator's restart",
          "[transcripts]") {
  RecordedMachine machine("measured-anew", hardware_state(), {});
  bring_up_hardware(machine);
  machine.feed(NodeLost{"n0"});
  machine.feed(NodeLost{"n1"});
  machine.come_back("n0", "second", false);
  machine.come_back("n1", "second", false);
  machine.carry_out();
  machine.feed(kNoneKnown);
  machine.say("the hardware changes once more");
  machine.come_back("n0", "third", false);
  machine.come_back("n1", "third", false);
  machine.carry_out();
  machine.feed(kNoneKnown);
  machine.carry_out();
  machine.feed(kAllKnown);
  machine.carry_out();
  machine.steps(60, 140);
  machine.check();
}

TEST_CASE("transcripts of costs that cannot be measured anew, and of a stop meanwhile", "[transcripts]") {
  for (const std::string name : {"no-database", "benchmark-fails", "node-lost", "stopped"}) {
    RecordedMachine machine("measured-anew-" + name, hardware_state(), {});
    bring_up_hardware(machine);
    machine.come_back("n0", "second");
    machine.come_back("n1", "second");
    machine.carry_out();
    if (name == "no-database") machine.feed(CostsCounted{0, 0, {}, {}, "", "the database is away"});
    if (name != "no-database") machine.feed(kNoneKnown);
    if (name == "benchmark-fails") {
      while (!machine.state().outstanding.empty() && machine.state().phase == Phase::kProfiling) {
        machine.feed(CommandFinished{machine.state().outstanding.front().tag.text, false, "no module torch", ""});
      }
      machine.pass(std::chrono::seconds(20));
      machine.feed(kNoneKnown);
    }
    if (name == "node-lost") machine.feed(NodeLost{"n1"});
    if (name == "node-lost") machine.pass(std::chrono::seconds(5));
    if (name == "stopped") machine.feed(Order::kStop);
    machine.carry_out();
    machine.check();
  }
}

TEST_CASE("transcripts of profiling alone, and of a benchmark that measures nothing", "[transcripts]") {
  TuningState state;
  state.job = fake_job();
  state.tune = false;
  RecordedMachine alone("profiling-alone", state);
  alone.begin();
  alone.feed(NodesReady{{{"n0", 0, 2}}, ClusterText("{}"), "f"});
  alone.feed(CommandFinished{"describe", true, "", "{}"});
  alone.feed(CostsCounted{5, 0, {}, {}, "", ""});
  alone.check();

  state.tune = true;
  RecordedMachine fails("profiling-fails", state);
  fails.begin();
  fails.feed(NodesReady{{{"n0", 0, 2}}, ClusterText("{}"), "f"});
  fails.feed(CommandFinished{"describe", true, "", "{}"});
  fails.feed(CostsCounted{0, 5, {"{}", "{}"}, {3, 2}, "a, b", ""});
  fails.feed(CommandMoved{"benchmark/0/n0", 1, 3, "a"});
  fails.feed(CommandFinished{"benchmark/0/n0", false, "there is no such program", ""});
  fails.pass(std::chrono::minutes(1));
  fails.feed(CostsCounted{0, 5, {}, {}, "a, b", ""});
  fails.check();
}
