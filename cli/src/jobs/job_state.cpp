#include "jobs/job_state.hpp"

#include <nlohmann/json.hpp>

#include "jobs/reply_document.hpp"
#include "json_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

std::optional<Plan> plan_of(const json& object) {
  const auto found = object.find("plan");
  if (found == object.end() || !found->is_object()) return std::nullopt;
  auto plan = parse_plan(found->dump(), "plan");
  return plan.ok() ? std::optional(std::move(plan).value()) : std::nullopt;
}

TrialState trial_of(const json& object) {
  TrialState trial;
  take(object, "id", trial.id);
  trial.plan = plan_of(object);
  take(object, "state", trial.state);
  take(object, "reason", trial.reason);
  take(object, "message", trial.message);
  take(object, "predicted_ms", trial.predicted_ms);
  take(object, "measured_ms", trial.measured_ms);
  take(object, "incumbent_ms", trial.incumbent_ms);
  take(object, "switch_ms", trial.switch_ms);
  take(object, "break_even_steps", trial.break_even_steps);
  if (const auto phases = object.find("switch_phases_ms"); phases != object.end() && phases->is_object()) {
    for (const auto& [name, words] : kSwitchPhases) {
      double ms = 0;
      take(*phases, std::string(name).c_str(), ms);
      if (ms > 0) trial.switch_phases.emplace_back(name, ms);
    }
  }
  if (const auto speedup = object.find("speedup"); speedup != object.end() && speedup->is_object()) {
    take(*speedup, "ratio", trial.ratio);
    take(*speedup, "low", trial.ratio_low);
    take(*speedup, "high", trial.ratio_high);
  }
  return trial;
}

JobState job_of(const json& object) {
  JobState job;
  take(object, "name", job.name);
  take(object, "phase", job.phase);
  take(object, "doing", job.doing);
  take(object, "mode", job.mode);
  take(object, "held_by", job.held_by);
  take(object, "storage_failure", job.storage_failure);
  take(object, "waits_for", job.waits_for);
  take(object, "active", job.active);
  take(object, "report_complete", job.report_complete);
  if (const auto progress = object.find("progress"); progress != object.end() && progress->is_object()) {
    take(*progress, "done", job.done);
    take(*progress, "total", job.total);
    take(*progress, "what", job.what);
  }
  take(object, "step", job.step);
  take(object, "steps", job.steps);
  if (const auto loss = object.find("loss"); loss != object.end() && loss->is_number()) job.loss = loss->get<double>();
  take(object, "step_ms", job.step_ms);
  take(object, "trials", job.trials);
  if (const auto overhead = object.find("overhead"); overhead != object.end() && overhead->is_object()) {
    take(*overhead, "ms", job.overhead_ms);
    take(*overhead, "share", job.overhead_share);
    take(*overhead, "allowed_share", job.allowed_share);
  }
  take(object, "failure", job.failure);
  take(object, "conclusion", job.conclusion);
  if (const auto incumbent = object.find("incumbent"); incumbent != object.end() && incumbent->is_object()) {
    take(*incumbent, "hash", job.incumbent_hash);
    job.incumbent = plan_of(*incumbent);
  }
  if (const auto trial = object.find("trial"); trial != object.end() && trial->is_object())
    job.trial = trial_of(*trial);
  return job;
}

NodeState node_of(const json& object) {
  NodeState node;
  take(object, "name", node.name);
  take(object, "state", node.state);
  take(object, "devices", node.devices);
  take(object, "memory_bytes", node.memory_bytes);
  take(object, "fingerprint", node.fingerprint);
  take(object, "release", node.release);
  take(object, "kill_switch", node.kill_switch);
  take(object, "tenant", node.tenant);
  return node;
}

}  // namespace

bool trains_on(const JobState& job) {
  return job.active && job.phase == "training" && job.doing == "nothing";
}

bool is_halted(const JobState& job) {
  return job.active && job.doing == "halted";
}

Result<JobState> parse_job_state(std::string_view text) {
  return reading(text, job_of);
}

Result<std::vector<JobEvent>> parse_events(std::string_view text) {
  return reading(text, [](const json& document) {
    std::vector<JobEvent> events;
    for (const json& object : document.at("events")) {
      JobEvent event;
      take(object, "sequence", event.sequence);
      take(object, "kind", event.kind);
      take(object, "text", event.text);
      events.push_back(std::move(event));
    }
    return events;
  });
}

Result<std::vector<TrialState>> parse_trials(std::string_view text) {
  return reading(text, [](const json& document) {
    std::vector<TrialState> trials;
    for (const json& object : document.at("trials")) trials.push_back(trial_of(object));
    return trials;
  });
}

Result<ClusterState> parse_cluster_state(std::string_view text) {
  return reading(text, [](const json& document) {
    ClusterState cluster;
    take(document, "release", cluster.release);
    take(document, "uptime_s", cluster.uptime_s);
    for (const json& object : document.at("nodes")) cluster.nodes.push_back(node_of(object));
    for (const json& object : document.at("jobs")) cluster.jobs.push_back(job_of(object));
    return cluster;
  });
}

}  // namespace trimtab::cli
