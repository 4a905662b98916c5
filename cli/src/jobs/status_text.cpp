#include "jobs/status_text.hpp"

#include "base/numbers.hpp"
#include "base/units.hpp"
#include "jobs/change_text.hpp"
#include "jobs/job_state.hpp"
#include "jobs/overhead_text.hpp"
#include "jobs/progress.hpp"
#include "nearest.hpp"
#include "plans/plan_text.hpp"
#include "text_table.hpp"

namespace trimtab::cli {

namespace {

std::string steps_of(const api::JobSummary& job) {
  return std::to_string(job.step) + (job.steps > 0 ? "/" + std::to_string(job.steps) : "");
}

std::string remark_of(const api::JobSummary& job) {
  if (!job.failure.empty()) return printable(job.failure);
  if (!job.waits_for.empty()) return printable(job.waits_for);
  const api::Progress& progress = job.progress;
  const std::string held = job.held_by.empty() ? "" : printable(job.held_by) + "; ";
  return held + (progress.total > 0 ? std::to_string(progress.done) + "/" + std::to_string(progress.total) + " " +
                                          printable(progress.what)
                                    : "");
}

std::string ratio_text(const api::Trial& trial) {
  if (trial.measured_ms <= 0) return "-";
  const api::Ratio ratio = trial.speedup.value_or(api::Ratio{});
  return format_fixed(ratio.ratio, 2) + " (" + format_fixed(ratio.low.value_or(1), 2) + " to " +
         format_fixed(ratio.high.value_or(1), 2) + ")";
}

}  // namespace

std::string describe(const api::ClusterStatus& cluster) {
  std::string text = "coordinator " + cluster.release + ", up " + format_ms(cluster.uptime_s * 1000) + "\n\n";
  TextTable nodes({{"node"}, {"state"}, {"devices", true}, {"memory", true}, {"fingerprint"}});
  for (const api::Node& node : cluster.nodes) {
    const std::string tenant = node.tenant == "*" ? "" : ", for tenant " + printable(node.tenant) + " alone";
    nodes.add({node.name, node.state + (node.kill_switch ? ", kill switch thrown" : "") + tenant,
               std::to_string(node.devices), format_bytes(node.memory_bytes), node.fingerprint});
  }
  text += nodes.empty() ? "no nodes\n" : nodes.str();
  TextTable jobs(
      {{"job"}, {"mode"}, {"phase"}, {"step", true}, {"step time", true}, {"loss", true}, {"trials", true}, {""}});
  for (const api::JobSummary& job : cluster.jobs) {
    jobs.add({job.name, job.mode, job.phase.text(), steps_of(job), job.step_ms > 0 ? format_ms(job.step_ms) : "-",
              job.loss && job.step > 0 ? format_fixed(*job.loss, 4) : "-", std::to_string(job.trials), remark_of(job)});
  }
  return text + "\n" + (jobs.empty() ? "no jobs\n" : jobs.str());
}

std::string describe(const api::Job& job) {
  std::string text = "job " + printable(job.name) + ": " + progress_line(job, 120) + "\n";
  if (!job.waits_for.empty()) text += "waits: " + printable(job.waits_for) + "\n";
  if (!job.held_by.empty()) text += "held: " + printable(job.held_by) + "\n";
  const auto incumbent = plan_of(job.incumbent.plan.value_or(api::CarriedPlan{}));
  if (incumbent) text += "incumbent: " + one_line(*incumbent) + "\n";
  if (job.overhead.ms > 0) text += "tuning has cost " + overhead_text(job.overhead) + "\n";
  return job.trial ? text + trial_line(*job.trial) + "\n" : text;
}

std::string describe(const std::vector<api::Trial>& trials) {
  TextTable table({{"trial", true},
                   {"predicted", true},
                   {"measured", true},
                   {"speed-up", true},
                   {"state"},
                   {"reason"},
                   {"switch", true},
                   {"plan"}});
  for (const api::Trial& trial : trials) {
    const double switch_ms = trial.switch_ms.value_or(0);
    const auto plan = plan_of(trial.plan);
    table.add({std::to_string(trial.id), format_ms(trial.predicted_ms),
               trial.measured_ms > 0 ? format_ms(trial.measured_ms) : "-", ratio_text(trial), trial.state.text(),
               printable(trial.reason), switch_ms > 0 ? format_ms(switch_ms) : "-", plan ? one_line(*plan) : ""});
  }
  if (table.empty()) return "no trials yet\n";
  std::string changes;
  for (const api::Trial& trial : trials) {
    const api::SwitchPhases phases = trial.switch_phases_ms.value_or(api::SwitchPhases{});
    if (!is_told(phases)) continue;
    const std::int64_t paid = trial.break_even_steps.value_or(0);
    changes += "the change to trial " + std::to_string(trial.id) + "'s plan took " +
               change_text(trial.switch_ms.value_or(0), phases) +
               (paid > 0 ? "; it has paid after " + std::to_string(paid) + " steps" : "") + "\n";
  }
  return table.str() + changes;
}

Result<std::string> choose_job(const api::ClusterStatus& cluster, const std::string& wanted) {
  std::vector<std::string> names;
  std::vector<std::string> active;
  for (const api::JobSummary& job : cluster.jobs) {
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
