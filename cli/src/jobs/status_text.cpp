#include "jobs/status_text.hpp"

#include "base/numbers.hpp"
#include "base/units.hpp"
#include "jobs/overhead_text.hpp"
#include "jobs/progress.hpp"
#include "jobs/switch_phases.hpp"
#include "nearest.hpp"
#include "plans/plan_text.hpp"
#include "text_table.hpp"

namespace trimtab::cli {

namespace {

std::string steps_of(const JobState& job) {
  return std::to_string(job.step) + (job.steps > 0 ? "/" + std::to_string(job.steps) : "");
}

std::string remark_of(const JobState& job) {
  if (!job.failure.empty()) return printable(job.failure);
  if (!job.waits_for.empty()) return printable(job.waits_for);
  const std::string held = job.held_by.empty() ? "" : printable(job.held_by) + "; ";
  return held +
         (job.total > 0 ? std::to_string(job.done) + "/" + std::to_string(job.total) + " " + printable(job.what) : "");
}

std::string ratio_text(const TrialState& trial) {
  if (trial.measured_ms <= 0) return "-";
  return format_fixed(trial.ratio, 2) + " (" + format_fixed(trial.ratio_low, 2) + " to " +
         format_fixed(trial.ratio_high, 2) + ")";
}

}  // namespace

std::string describe(const ClusterState& cluster) {
  std::string text = "coordinator " + cluster.release + ", up " + format_ms(cluster.uptime_s * 1000) + "\n\n";
  TextTable nodes({{"node"}, {"state"}, {"devices", true}, {"memory", true}, {"fingerprint"}});
  for (const NodeState& node : cluster.nodes) {
    const std::string tenant = node.tenant == "*" ? "" : ", for tenant " + printable(node.tenant) + " alone";
    nodes.add({node.name, node.state + (node.kill_switch ? ", kill switch thrown" : "") + tenant,
               std::to_string(node.devices), format_bytes(node.memory_bytes), node.fingerprint});
  }
  text += nodes.empty() ? "no nodes\n" : nodes.str();
  TextTable jobs(
      {{"job"}, {"mode"}, {"phase"}, {"step", true}, {"step time", true}, {"loss", true}, {"trials", true}, {""}});
  for (const JobState& job : cluster.jobs) {
    jobs.add({job.name, job.mode, job.phase, steps_of(job), job.step_ms > 0 ? format_ms(job.step_ms) : "-",
              job.loss && job.step > 0 ? format_fixed(*job.loss, 4) : "-", std::to_string(job.trials), remark_of(job)});
  }
  return text + "\n" + (jobs.empty() ? "no jobs\n" : jobs.str());
}

std::string describe(const JobState& job) {
  std::string text = "job " + printable(job.name) + ": " + progress_line(job, 120) + "\n";
  if (!job.waits_for.empty()) text += "waits: " + printable(job.waits_for) + "\n";
  if (!job.held_by.empty()) text += "held: " + printable(job.held_by) + "\n";
  if (job.incumbent) text += "incumbent: " + one_line(*job.incumbent) + "\n";
  if (job.overhead_ms > 0) {
    text += "tuning has cost " + overhead_text(job.overhead_ms, job.overhead_share, job.allowed_share) + "\n";
  }
  return job.trial ? text + trial_line(*job.trial) + "\n" : text;
}

std::string describe(const std::vector<TrialState>& trials) {
  TextTable table({{"trial", true},
                   {"predicted", true},
                   {"measured", true},
                   {"speed-up", true},
                   {"state"},
                   {"reason"},
                   {"switch", true},
                   {"plan"}});
  for (const TrialState& trial : trials) {
    table.add({std::to_string(trial.id), format_ms(trial.predicted_ms),
               trial.measured_ms > 0 ? format_ms(trial.measured_ms) : "-", ratio_text(trial), trial.state,
               printable(trial.reason), trial.switch_ms > 0 ? format_ms(trial.switch_ms) : "-",
               trial.plan ? one_line(*trial.plan) : ""});
  }
  if (table.empty()) return "no trials yet\n";
  std::string changes;
  for (const TrialState& trial : trials) {
    if (trial.switch_phases.empty()) continue;
    changes +=
        "the change to trial " + std::to_string(trial.id) + "'s plan took " +
        change_text(trial.switch_ms, trial.switch_phases) +
        (trial.break_even_steps > 0 ? "; it has paid after " + std::to_string(trial.break_even_steps) + " steps" : "") +
        "\n";
  }
  return table.str() + changes;
}

Result<std::string> choose_job(const ClusterState& cluster, const std::string& wanted) {
  std::vector<std::string> names;
  std::vector<std::string> active;
  for (const JobState& job : cluster.jobs) {
    if (job.name == wanted) return wanted;
    names.push_back(job.name);
    if (job.active) active.push_back(job.name);
  }
  if (wanted.empty() && names.size() == 1) return names.front();
  if (wanted.empty() && active.size() == 1) return active.front();
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  if (names.empty())
    return bad_input("the coordinator knows no job yet; hand one in with 'trimtab tune --job job.toml'");
  if (wanted.empty()) return bad_input("several jobs are known, name one with --job: " + known);
  return bad_input("--job: there is no job '" + wanted + "'" + did_you_mean(wanted, names) + " Known are: " + known +
                   ".");
}

}  // namespace trimtab::cli
