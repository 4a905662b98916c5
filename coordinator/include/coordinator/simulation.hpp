#pragma once

// A job tuned on a simulated cluster: the coordinator's own tuning machine and planner, in virtual time, against a
// hidden ground truth. Pure but for the tuner's own work: no sockets, files, clocks or threads; the same input gives
// the same outcome, bit for bit. Who may call: the command line, benchmarks, tests.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/settings/settings.hpp"

namespace trimtab::coordinator {

// What is wrong with the model's costs. A factor of 0 is drawn: e^(error * normal).
struct TruthSettings {
  double computation = 0;
  double communication = 0;
  double overlap = 0;  // on the part of a slowdown beyond 1
  double memory = 0;
  double error = 0.2;  // of the factors that are drawn
  // What no factor explains: of each operator's times together, and of each single time.
  double operators = 0.08;
  double spread = 0.03;
  // What no cost explains of a step: of all operators that are run in one way (count of stages, samples, split,
  // sharding, schedule) together, and of each plan alone. Standard deviations, in logarithms.
  double way = 0.045;
  double plan = 0.01;
  double step_overhead_ms = 0;  // per step, owned by nothing
};

// Step times around the true one. Shares of a step's time, in logarithms.
struct NoiseSettings {
  double step = 0.02;               // each step's own
  double drift = 0.01;              // of the machine: a first-order autoregression, its standard deviation
  double drift_steps = 30;          // and after how many steps it has forgotten 63 %
  double straggler = 0.02;          // share of steps with a slow rank
  double straggler_slowdown = 1.3;  // how slow
  std::int32_t outlier_every = 50;  // a checkpoint is written; 0 = never
  double outlier_slowdown = 2.0;
  double tail = 0;          // share of steps that something hits, however long: Pareto's, of shape 2, ten times at most
  double busy_every_s = 0;  // other work comes after so long in the mean, exponentially; 0 = never
  double busy_s = 8;        // and stays for so long in the mean, exponentially
  double busy_slowdown = 1;  // of steps and probes meanwhile
};

// What changing plan costs, and what goes wrong.
struct SwitchSettings {
  double seconds = 1.0;
  double bytes_per_second = 2e9;     // of parameters, gradients and optimizer state, per device
  double warmup_slowdown = 1.5;      // of the first step after a change
  double warmup_decay = 0.3;         // what is left of the excess with each step …
  std::int64_t preparing_steps = 0;  // the first ones, all as slow, in which a rank tells that it prepares
  double crash = 0.0;                // share of changes to a plan never run before in which a rank dies
  double hang = 0.0;                 // … in which all ranks fall silent
};

// What ranks tell that is not so. Shares of first runs of a plan, but for `corrupt`.
struct FaultSettings {
  double corrupt = 0.0;     // share of all steps whose time is told as nothing, or as a billion times itself
  double unreported = 0.0;  // … after which a rank tells of no step any more
  double clock = 0.0;       // … under which the ranks' clocks run wrong
  double clock_speed = 0.5;
};

// Something changes at a step. kind "link": links of `level` deliver `share` of their bandwidth and take `latency_us`
// longer: all of them, or that of `node` to `peer`, which then decides what collectives over the level take. "device":
// device `device` computes at `share` of its speed. "lost": `node` is away for `seconds` and its ranks are dead when it
// is back; a `share` other than 1: it comes back as other hardware, whose devices compute at it. "joined": an agent on
// `node` is there, which nobody knew or which was lost; with devices of `share`, too. "coordinator": it dies, and
// another goes on from what was stored.
struct DriftSettings {
  std::int64_t at_step = 0;
  std::string kind;
  std::string level;
  std::string node;
  std::int32_t device = 0;
  double share = 1.0;
  double seconds = 0;
  std::string peer;
  double latency_us = 0;  // of a link: what each message over it takes longer
};

struct Scenario {
  TruthSettings truth;
  NoiseSettings noise;
  SwitchSettings change;
  FaultSettings faults;
  std::vector<DriftSettings> drift;
};

// All keys of a scenario, and those of each of its [[drift]]s.
[[nodiscard]] const SettingTable<Scenario>& scenario_settings();
[[nodiscard]] const SettingTable<DriftSettings>& drift_settings();
// TOML (docs/simulation.md).
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view toml, std::string_view source);

struct SimulationInput {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;  // what the tuner believes
  Job job;                  // world_size is the cluster's, memory_limit binds its devices; commands are not run
  Scenario scenario;
  std::uint64_t seed = 1;
  std::string planner = "tuner";       // one of simulation_planners()
  std::uint64_t evaluations = 20000;   // of each search of the job
  std::uint64_t best_evaluations = 0;  // of the search for the true best; 0 = four times those
  bool elastic = true;                 // the job may go on with fewer ranks when a node is lost for good
  // What an earlier job of this name learnt; empty = nothing.
  std::string calibration_json;
  // Times the searches, for the outcome's planning seconds alone; null = they are not timed. Must outlive the call.
  const Clock* stopwatch = nullptr;
};

// "tuner"; "random": plans at random; "hill-climb": neighbours of the best so far, one knob at a time; "grid": levels
// of sharding by counts of samples, in the order of DeepSpeed's autotuner, "grid-fast" as in its fast mode; "sweep":
// every plan of few words, one after the other. All but the first know predicted memory alone.
[[nodiscard]] std::vector<std::string_view> simulation_planners();

// For people, as it happens: virtual seconds since the begin, a kind ("trial", "plan", "result", …) and a line.
using SimulationNote = std::function<void(double seconds, const std::string& kind, const std::string& text)>;

// How far the hidden truth is from the costs.
struct TrueFactors {
  double computation = 1;
  double communication = 1;
  double overlap = 1;
  double memory = 1;
};

// What the job's decisions were worth, by that truth.
struct SimulationVerdict {
  TrueFactors truth;
  double initial_true_ms = 0;
  double adopted_true_ms = 0;
  double best_true_ms = 0;  // of the best known plan
  double regret = 0;
  std::size_t trials = 0;
  std::int64_t trial_steps = 0;
  int adoptions = 0;
  int false_adoptions = 0;
  int truly_worse_trials = 0;
  int out_of_memory_trials = 0;
  int measured_trials = 0;
  int predictions_covered = 0;
  int ratios_covered = 0;
  int trials_to_goal = -1;  // by which the incumbent was within 2 % of the best; 0 = at the start, -1 = never
  double job_hours = 0;
  double overhead_share = 0;
  double overhead_device_hours = 0;
};

struct SimulationOutcome {
  // By the stopwatch: what the job's searches took, and the longest of them.
  double planning_seconds = 0;
  double longest_search_seconds = 0;
  std::uint64_t searches = 0;
  SimulationVerdict verdict;
  std::string simulation_json;  // "trimtab.simulation/1": the verdict, and each trial
  std::string report_json;      // "trimtab.report/1", as a real job's
};

[[nodiscard]] Result<SimulationOutcome> simulate(const SimulationInput& input, const SimulationNote& note);

}  // namespace trimtab::coordinator
