#include "readers.hpp"

#include "agent/configuration.hpp"
#include "coordinator/settings.hpp"
#include "coordinator/simulation.hpp"
#include "schema/job.hpp"

using namespace trimtab;

namespace {

template <typename Outcome>
std::string said(const Outcome& outcome) {
  return outcome.ok() ? "ok" : outcome.error().message;
}

std::string agent_says(const std::string& lines) {
  return said(agent::configure({}, agent::ConfigurationFile{"FILE", lines}, {}, {}));
}

std::string coordinator_says(const std::string& lines) {
  coordinator::Settings settings;
  return said(coordinator::coordinator_settings().set_from_toml(settings, lines, "FILE"));
}

std::string site_says(const std::string& lines) {
  return said(coordinator::parse_site_policy(lines, "FILE"));
}

// What a job needs stands first, so that `lines` may begin a table.
std::string job_says(const std::string& lines) {
  std::string text;
  for (const auto& [key, line] : {std::pair("schema", "schema = \"trimtab.job/1\"\n"),
                                  {"name", "name = \"j\"\n"},
                                  {"model", "model = \"m.json\"\n"},
                                  {"commands", "commands.train = [\"t\"]\n"}}) {
    if (lines.find(key) == std::string::npos) text += line;
  }
  return said(parse_job_toml(text + lines, "FILE", "/d"));
}

// "drift.share = 1" is a line of a [[drift]].
std::string scenario_says(const std::string& lines) {
  const std::string prefix = "drift.";
  const bool drift = lines.starts_with(prefix);
  const std::string kind = lines.starts_with("drift.kind") ? "" : "kind = \"device\"\n";
  const std::string text = drift ? "[[drift]]\n" + kind + lines.substr(prefix.size()) : lines;
  return said(coordinator::parse_scenario(text, "FILE"));
}

std::vector<std::string> agent_keys() {
  std::vector<std::string> keys;
  for (const auto& key : agent::agent_settings().facts()) keys.emplace_back(key.name);
  return keys;
}

std::vector<std::string> coordinator_keys() {
  std::vector<std::string> keys;
  for (const auto& key : coordinator::coordinator_settings().facts()) keys.emplace_back(key.name);
  return keys;
}

std::vector<std::string> site_keys() {
  std::vector<std::string> keys;
  for (const auto& key : coordinator::site_policy_settings().facts()) keys.emplace_back(key.name);
  return keys;
}

std::vector<std::string> job_keys() {
  return {"schema",
          "name",
          "mode",
          "delivery",
          "world_size",
          "memory_limit",
          "steps",
          "elastic",
          "share_devices",
          "near_costs",
          "allow_restarts",
          "target",
          "strategy",
          "checkpoint",
          "walltime_s",
          "hang_s",
          "class",
          "initial_plan",
          "model",
          "working_directory",
          "environment",
          "environment.A",
          "software",
          "software.nccl",
          "knobs.own.A",
          "knobs.own_class.A",
          "knobs.own_when.A",
          "commands",
          "commands.describe",
          "commands.benchmark",
          "commands.train",
          "commands.submit",
          "knobs",
          "knobs.pipeline",
          "knobs.uneven_stages",
          "knobs.microbatch",
          "knobs.data_parallel",
          "knobs.recompute",
          "knobs.sliced_microbatches",
          "knobs.sequence_parallel",
          "knobs.context_parallel",
          "knobs.interleaved",
          "knobs.mixed_splits",
          "knobs.partial_shards",
          "knobs.tensor_parallel",
          "knobs.sharded",
          "knobs.sub_batches",
          "knobs.memory_switches",
          "trials",
          "trials.deadline_s",
          "trials.look_every_s",
          "trials.lasting_s",
          "trials.measure_again_s",
          "trials.minimum_gain",
          "trials.overhead",
          "trials.prepare",
          "trials.after",
          "trials.warmup_steps",
          "trials.measure_steps",
          "trials.blocks",
          "trials.candidates",
          "trials.max_trials",
          "trials.loss_check_steps",
          "crashes",
          "crashes.limit",
          "crashes.within_s",
          "crashes.within_steps"};
}

std::vector<std::string> scenario_keys() {
  return {"truth",
          "truth.computation",
          "truth.communication",
          "truth.overlap",
          "truth.memory",
          "truth.error",
          "truth.operators",
          "truth.spread",
          "truth.way",
          "truth.plan",
          "truth.step_overhead_ms",
          "noise.step",
          "noise.drift",
          "noise.drift_steps",
          "noise.straggler",
          "noise.straggler_slowdown",
          "noise.outlier_every",
          "noise.outlier_slowdown",
          "noise.tail",
          "noise.busy_every_s",
          "noise.busy_s",
          "noise.busy_slowdown",
          "switch.seconds",
          "switch.bytes_per_second",
          "switch.warmup_slowdown",
          "switch.warmup_decay",
          "switch.preparing_steps",
          "switch.crash",
          "switch.hang",
          "faults.corrupt",
          "faults.unreported",
          "faults.clock",
          "faults.clock_speed",
          "drift",
          "drift.at_step",
          "drift.kind",
          "drift.level",
          "drift.node",
          "drift.peer",
          "drift.device",
          "drift.share",
          "drift.seconds",
          "drift.latency_us"};
}

}  // namespace

const std::vector<SettingsReader>& settings_readers() {
  static const std::vector<SettingsReader> kReaders = {{"agent", agent_keys(), agent_says},
                                                       {"coordinator", coordinator_keys(), coordinator_says},
                                                       {"site", site_keys(), site_says},
                                                       {"job", job_keys(), job_says},
                                                       {"scenario", scenario_keys(), scenario_says}};
  return kReaders;
}
