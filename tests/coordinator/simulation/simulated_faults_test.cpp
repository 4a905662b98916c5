// Every way in which a trial, its measurement or the cluster can fail, injected into simulated jobs: the job lives,
// goes on with a plan that it was right to run, and says what happened.

#include <catch2/catch.hpp>
#include <functional>

#include "simulated_job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr int kSeeds = 8;

struct Outcomes {
  int failed = 0;  // trials, for the reason that was injected
  int near = 0;    // jobs within 2 % of the best
};

// Jobs of up to kSeeds seeds with `fault`; trials may cost what they will.
Outcomes survived(const std::string& reason, const std::function<void(Scenario&)>& fault) {
  Outcomes outcomes;
  for (int seed = 1; seed <= usual_seeds(kSeeds); ++seed) {
    SimulationInput input = small_input(seed);
    input.job.trials.overhead = 1;
    fault(input.scenario);
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript);
    INFO("regret " << job.verdict["regret"] << ", " << job.verdict["conclusion"]);
    CHECK(job.lives());
    CHECK(job.verdict["false_adoptions"] == 0);
    outcomes.failed += job.trials(reason);
    outcomes.near += job.verdict["regret"].get<double>() <= 0.02 ? 1 : 0;
  }
  return outcomes;
}

}  // namespace

TEST_CASE("fault: candidates that crash, up to 8 seeds", "[simulation][faults]") {
  const Outcomes seen = survived("crash", [](Scenario& of) { of.change.crash = 0.5; });
  CHECK(seen.failed >= usual_seeds(4));
}

TEST_CASE("fault: candidates under which all ranks fall silent, up to 8 seeds", "[simulation][faults]") {
  const Outcomes seen = survived("hang", [](Scenario& of) { of.change.hang = 0.5; });
  CHECK(seen.failed >= usual_seeds(4));
}

TEST_CASE("fault: memory that is really needed and not predicted is learnt, or survived, up to 8 seeds",
          "[simulation][faults]") {
  const Outcomes seen = survived("out_of_memory", [](Scenario& of) { of.truth.memory = 1.4; });
  CHECK(seen.near >= usual_seeds(6));
}

TEST_CASE("fault: step times that cannot be, up to 8 seeds", "[simulation][faults]") {
  const Outcomes seen = survived("corrupt measurement", [](Scenario& of) { of.faults.corrupt = 0.4; });
  CHECK(seen.failed >= usual_seeds(4));
}

TEST_CASE("fault: an odd step time that cannot be spoils no trial, up to 8 seeds", "[simulation][faults]") {
  const Outcomes seen = survived("corrupt measurement", [](Scenario& of) { of.faults.corrupt = 0.02; });
  CHECK(seen.failed == 0);
  CHECK(seen.near >= usual_seeds(7));
}

TEST_CASE("fault: a rank that tells of no step under some candidates, up to 8 seeds", "[simulation][faults]") {
  const Outcomes seen = survived("no measurement", [](Scenario& of) { of.faults.unreported = 0.5; });
  CHECK(seen.failed >= usual_seeds(4));
}

TEST_CASE("fault: clocks that run at half speed under some candidates adopt nothing, up to 8 seeds",
          "[simulation][faults]") {
  const Outcomes seen = survived("clock", [](Scenario& of) { of.faults.clock = 0.5; });
  CHECK(seen.failed >= usual_seeds(4));
}

TEST_CASE("fault: clocks that run at double speed reject nothing, up to 8 seeds", "[simulation][faults]") {
  const Outcomes seen = survived("clock", [](Scenario& of) {
    of.faults.clock = 0.5;
    of.faults.clock_speed = 2;
  });
  CHECK(seen.failed >= usual_seeds(4));
}

TEST_CASE("fault: a node's agent is lost in the middle of trials, up to 8 seeds", "[simulation][faults]") {
  const Outcomes seen = survived("agent lost", [](Scenario& of) {
    for (const std::int64_t step : {30, 47, 61}) of.drift.push_back({step, "lost", "", "n0", 0, 1, 20, ""});
  });
  CHECK(seen.failed >= usual_seeds(4));
  CHECK(seen.near >= usual_seeds(6));
}

TEST_CASE("fault: the coordinator dies in the middle of trials and another goes on, up to 8 seeds",
          "[simulation][faults]") {
  const Outcomes seen = survived("coordinator restarted", [](Scenario& of) {
    for (const std::int64_t step : {30, 70}) of.drift.push_back({step, "coordinator", "", "", 0, 1, 0, ""});
  });
  CHECK(seen.failed >= usual_seeds(4));
  CHECK(seen.near >= usual_seeds(6));
}

TEST_CASE("a node that does not come back: an elastic job resumes on the plan kept for one node fewer, up to 4 seeds",
          "[simulation][faults]") {
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed, 3);
    input.scenario.drift.push_back({3000, "lost", "", "n1", 0, 1, 1e9, ""});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript << job.verdict.dump());
    CHECK(job.says("plan: a plan for one node fewer is kept ready"));
    CHECK(job.says("ranks: node n1 did not come back within the deadline: the job goes on without, on 4 devices"));
    CHECK(job.says("phase: measuring"));
    CHECK(job.verdict["phase"] == "training");
    CHECK(job.verdict["devices_left"] == 4);
    CHECK(job.verdict["regret"].get<double>() <= 0.1);
    // No more than what the last snapshot lacks is trained again.
    input.elastic = false;
    input.scenario.drift.back().seconds = 300;
    const Simulated waiting = run(input);
    CHECK(waiting.says("ranks on node n1 ended while its agent was away"));
    CHECK(waiting.says("ranks: launch 2 runs"));
    CHECK(waiting.verdict["devices_left"] == 6);
  }
}

TEST_CASE("a link between two nodes at a quarter of its bandwidth is named, and tuning begins again, up to 4 seeds",
          "[simulation][faults]") {
  // Under some plans it moves steps by just the 8 % that count as a change.
  int noticed = 0, named = 0;
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed, 3);
    input.scenario.drift.push_back({3000, "link", "inter_node", "n1", 0, 0.25, 0, "n2"});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript);
    CHECK(job.lives());
    CHECK(job.verdict["false_adoptions"].get<int>() <= 1);
    noticed += job.says("drift: since step ") ? 1 : 0;
    named += job.says(" sure: the link of node n1 to n2 is at ") ? 1 : 0;
  }
  CHECK(named == noticed);
  CHECK(noticed >= usual_seeds(2));
}

TEST_CASE("a link's latency that has grown is named, and costs are taken with it, up to 4 seeds",
          "[simulation][faults]") {
  int named = 0;
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed, 3);
    input.scenario.drift.push_back({3000, "link", "inter_node", "", 0, 1, 0, "", 20'000});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript << job.verdict.dump());
    CHECK(job.lives());
    CHECK(job.verdict["false_adoptions"].get<int>() <= 1);
    const bool said = job.says(" sure: a round trip over the link of node n0 to n1 takes ") ||
                      job.says(" sure: a round trip over the link of node n1 to n2 takes ");
    named += said ? 1 : 0;
    if (!said) continue;
    CHECK(job.says("taken as probed (inter_node links: "));  // all of the level, though two of three were probed
    CHECK(job.says(" more for a message"));
    CHECK(job.says("), and the others as they are"));
  }
  CHECK(named >= usual_seeds(3));
}

TEST_CASE("a device at half of its speed is named, and its costs are taken as probed, up to 4 seeds",
          "[simulation][faults]") {
  int named = 0;
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed, 2);
    input.scenario.drift.push_back({3000, "device", "", "n0", 1, 0.5, 0, ""});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript << job.verdict.dump());
    CHECK(job.lives());
    CHECK(job.verdict["false_adoptions"].get<int>() <= 1);
    const bool said = job.says(" sure: device 1 of node n0 runs at ");
    named += said ? 1 : 0;
    if (said)
      CHECK(job.says("all operators' on slow devices; until trials measure, they are taken as probed (device 1 at"));
  }
  CHECK(named >= usual_seeds(3));
}

TEST_CASE(
    "a second change soon after the job was tuned again is waited for until it may be tuned once more, up to 4 seeds",
    "[simulation][faults]") {
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed);
    input.job.trials.max_trials = 2;
    input.scenario.drift.push_back({1500, "device", "", "", 0, 0.5, 0, ""});
    input.scenario.drift.push_back({1600, "device", "", "", 2, 0.4, 0, ""});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript << job.verdict.dump());
    CHECK(job.says("drift: the job is not tuned again for it before step "));
    CHECK(job.says(" sure: device 2 of node n0"));
    CHECK(job.verdict["regret"].get<double>() <= 0.02);
  }
}

TEST_CASE("a lost node that joins again is offered, planned for and run on, up to 4 seeds", "[simulation][faults]") {
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed, 3);
    input.job.trials.overhead = 1;
    input.scenario.drift.push_back({2000, "lost", "", "n1", 0, 1, 1e9, ""});
    input.scenario.drift.push_back({4000, "joined", "", "n1", 0, 1, 0, ""});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript << job.verdict.dump());
    CHECK(job.says("the job goes on without, on 4 devices"));
    CHECK(job.says("ranks: node n1 has joined: a plan for 6 devices is searched"));
    CHECK(job.says("ranks: node n1 stays with the job: "));
    CHECK(job.verdict["devices_left"] == 6);
    CHECK(job.verdict["resizes"] == 2);
    CHECK(job.lives());
    CHECK(job.verdict["regret"].get<double>() <= 0.1);
  }
}

TEST_CASE(
    "a node that nobody knew takes the place of a lost one, with slower devices as they are probed, up to 4 seeds",
    "[simulation][faults]") {
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed, 3);
    input.job.trials.overhead = 1;
    input.scenario.drift.push_back({1000, "joined", "", "n7", 0, 0.6, 0, ""});
    input.scenario.drift.push_back({2000, "lost", "", "n1", 0, 1, 1e9, ""});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript << job.verdict.dump());
    CHECK(job.says("ranks: node n7 has joined (of another hardware fingerprint, probed at "));
    CHECK(job.lives());
    CHECK(job.verdict["false_adoptions"].get<int>() <= 1);
    CHECK(job.verdict["regret"].get<double>() <= 0.1);
  }
}

TEST_CASE("a lost node that comes back as slower hardware is measured anew and tuned for, up to 4 seeds",
          "[simulation][faults]") {
  for (int seed = 1; seed <= usual_seeds(4); ++seed) {
    SimulationInput input = small_input(seed, 3);
    input.job.trials.overhead = 1;
    input.scenario.drift.push_back({2000, "lost", "", "n1", 0, 0.5, 20, ""});
    const Simulated job = run(input);
    INFO("seed " << seed << "\n" << job.transcript << job.verdict.dump());
    CHECK(job.says("drift: node n1 came back as other hardware: fingerprint n1-since-step-2000 instead of "));
    CHECK(job.says(
        "drift: node n1, which is of other hardware, computes, beside what costs were measured on: device 2 at "));
    CHECK(job.says("drift: the running plan is measured anew, with node n1 as it is now"));
    CHECK(job.verdict["devices_left"] == 6);
    CHECK(job.lives());
    CHECK(job.verdict["false_adoptions"].get<int>() <= 1);
    CHECK(job.verdict["regret"].get<double>() <= 0.05);
  }
}

TEST_CASE("a node that is there cannot join", "[simulation][faults]") {
  SimulationInput input = small_input(2, 3);
  input.scenario.drift.push_back({10, "joined", "", "n1", 0, 1, 0, ""});
  const auto outcome = simulate(input, [](double, const std::string&, const std::string&) {});
  REQUIRE_FALSE(outcome.ok());
  CHECK(outcome.error().message.find("node 'n1' cannot join at step 10: it is there already") != std::string::npos);
}
