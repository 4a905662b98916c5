#include "jobs/status_text.hpp"

#include <algorithm>

#include "arguments.hpp"
#include "base/numbers.hpp"
#include "base/units.hpp"
#include "plans/told_plan.hpp"
#include "schema/job_without_plan.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

// `otherwise` where there is none, or one that this release cannot read.
std::string plan_text(const api::CarriedPlan& carried, const std::string& otherwise) {
  const auto told = told_plan(carried, "plan");
  return told.ok() ? named_plan(*told, otherwise) : otherwise;
}

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

// "1.11 to 1.19"
std::string interval_text(const api::Ratio& ratio) {
  if (!ratio.low || !ratio.high) return "too few steps for an interval";
  return format_fixed(*ratio.low, 2) + " to " + format_fixed(*ratio.high, 2);
}

// "1.15", `behind_ratio`, "1.11 to 1.19)".
std::string ratio_text(const api::Ratio& ratio, const char* behind_ratio) {
  return format_fixed(ratio.ratio, 2) + behind_ratio + interval_text(ratio) + ")";
}

std::string ratio_text(const api::Trial& trial, const char* behind_ratio) {
  return ratio_text(trial.speedup.value_or(api::Ratio{1, 1, 1}), behind_ratio);
}

std::string verdict(const api::Trial& trial) {
  std::string text = trial.state.text();
  if (!trial.reason.empty()) text += ", " + trial.reason;
  if (trial.measured_ms > 0) text += " (" + ratio_text(trial, "x, ");
  const std::string message = trial.message.value_or("");
  return message.empty() ? text : text + ": " + message;
}

std::string trials_text(const std::vector<std::int64_t>& ids) {
  std::string text = ids.size() == 1 ? "trial " : "trials ";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ids.size() ? " and " : ", ") + std::to_string(ids[i]);
  }
  return text;
}

// As a cell of a table of jobs.
std::string gain_cell(const api::JobSummary& job) {
  if (!job.gain || job.gain->by == api::GainBy::kTrialNotKept) return "-";
  return ratio_text(*job.gain, " (");
}

// ", of which the snapshot 90 ms, moving state 40 ms"
std::string parts_text(const api::SwitchPhases& phases) {
  std::string text;
  api::SwitchPhases::fields([&](std::string_view, auto part, api::Presence, std::string_view words) {
    if (phases.*part > 0)
      text += (text.empty() ? ", of which " : ", ") + std::string(words) + " " + format_ms(phases.*part);
  });
  return text;
}

}  // namespace

bool trains_on(const api::JobSummary& job) {
  return job.active && job.phase == Phase::kTraining && job.doing == Doing::kNothing;
}

bool is_halted(const api::JobSummary& job) {
  return job.active && job.doing == Doing::kHalted;
}

bool is_over(const api::Trial& trial) {
  return trial.state == TrialState::kFailed || trial.state == TrialState::kAdopted ||
         trial.state == TrialState::kRejected;
}

std::string progress_bar(std::int64_t done, std::int64_t total, int columns) {
  const std::int64_t bounded = std::clamp<std::int64_t>(done, 0, std::max<std::int64_t>(total, 0));
  const auto filled = static_cast<std::size_t>(total > 0 ? bounded * columns / total : 0);
  const std::string whole = std::to_string(total);
  const std::string part = std::to_string(bounded);
  return "[" + std::string(filled, '#') + std::string(static_cast<std::size_t>(columns) - filled, '-') + "] " +
         std::string(whole.size() - std::min(whole.size(), part.size()), ' ') + part + "/" + whole;
}

std::string progress_line(const api::JobSummary& job, std::size_t width) {
  std::string text = job.phase.text();
  const api::Progress& progress = job.progress;
  if (progress.total > 0) text += " " + progress_bar(progress.done, progress.total, 24) + " " + progress.what;
  if (job.step > 0) {
    text += "  step " + steps_of(job);
    if (job.step_ms > 0) text += "  " + format_ms(job.step_ms);
    if (job.loss) text += "  loss " + format_fixed(*job.loss, 4);
  }
  return cut(printable(text), width);
}

std::string trial_line(const api::Trial& trial) {
  std::string text = "trial " + std::to_string(trial.id) + ": " + plan_text(trial.plan, "plan not known") +
                     ": predicted " + format_ms(trial.predicted_ms);
  if (trial.measured_ms > 0) {
    text += ", measured " + format_ms(trial.measured_ms) + " beside " + format_ms(trial.incumbent_ms.value_or(0));
  }
  return printable(text + ": " + verdict(trial));
}

std::string overhead_text(const api::Overhead& overhead) {
  const double share = overhead.allowed_share;
  const std::string allowed = share > 0 ? " (" + format_percent(share) + " are allowed)" : "";
  return format_ms(overhead.ms) + ", " + format_percent(overhead.share) + " of the time that the job takes" + allowed;
}

std::string change_text(double ms, const api::SwitchPhases& phases) {
  return format_ms(ms) + parts_text(phases);
}

bool is_told(const api::SwitchPhases& phases) {
  return !parts_text(phases).empty();
}

std::string gain_text(const api::Gain& gain) {
  std::string text = format_fixed(gain.ratio, 2) + "×";
  if (gain.low && gain.high) {
    text += " (95 % interval " + format_fixed(*gain.low, 2) + " to " + format_fixed(*gain.high, 2) + ")";
  }
  if (gain.by == api::GainBy::kTrialNotKept)
    return text + " of " + trials_text(gain.trials) + ", whose plan is not kept";
  if (!gain.trials.empty()) text += ", as " + trials_text(gain.trials) + " measured it in turn";
  return text + (gain.until_step ? ", until the machine changed at step " + std::to_string(*gain.until_step) : "");
}

std::string describe(const api::ClusterStatus& cluster) {
  std::string text = "coordinator " + cluster.release + ", up " + format_ms(cluster.uptime_s * 1000) + "\n\n";
  if (cluster.storage_failure) text += "nothing is stored: " + printable(*cluster.storage_failure) + "\n\n";
  TextTable nodes({"node", "state", ">devices", ">memory", "fingerprint"});
  for (const api::Node& node : cluster.nodes) {
    const std::string tenant = node.tenant == "*" ? "" : ", for tenant " + printable(node.tenant) + " alone";
    nodes.add({node.name, node.state + (node.kill_switch ? ", kill switch thrown" : "") + tenant,
               std::to_string(node.devices), format_bytes(node.memory_bytes), node.fingerprint});
  }
  text += nodes.empty() ? "no nodes\n" : nodes.str();
  TextTable jobs({"job", "mode", "phase", ">step", ">step time", ">loss", ">trials", ">speed-up", ""});
  for (const api::JobSummary& job : cluster.jobs) {
    jobs.add({job.name, job.mode, job.phase.text(), steps_of(job), job.step_ms > 0 ? format_ms(job.step_ms) : "-",
              job.loss && job.step > 0 ? format_fixed(*job.loss, 4) : "-", std::to_string(job.trials), gain_cell(job),
              remark_of(job)});
  }
  return text + "\n" + (jobs.empty() ? "no jobs\n" : jobs.str());
}

std::string describe(const api::Job& job) {
  std::string text = "job " + printable(job.name) + ": " + progress_line(job, 120) + "\n";
  if (!job.waits_for.empty()) text += "waits: " + printable(job.waits_for) + "\n";
  if (!job.held_by.empty()) text += "held: " + printable(job.held_by) + "\n";
  const std::string incumbent = plan_text(job.incumbent.plan.value_or(api::CarriedPlan{}), "");
  if (!incumbent.empty()) text += "incumbent: " + printable(incumbent) + "\n";
  if (job.incumbent.hash == kAsLaunched) text += "runs " + std::string(kAsLaunchedText) + "\n";
  const std::string recommended = plan_text(job.recommendation, "");
  if (!recommended.empty()) text += "recommended: " + printable(recommended) + "\n";
  if (job.gain) text += "speed-up: " + gain_text(*job.gain) + "\n";
  if (job.overhead.ms > 0) text += "tuning has cost " + overhead_text(job.overhead) + "\n";
  return job.trial ? text + trial_line(*job.trial) + "\n" : text;
}

std::string describe(const std::vector<api::Trial>& trials) {
  TextTable table({">trial", ">predicted", ">measured", ">speed-up", "state", "reason", ">switch", "plan"});
  std::string changes;
  for (const api::Trial& trial : trials) {
    const double change_ms = trial.switch_ms.value_or(0);
    const bool measured = trial.measured_ms > 0;
    table.add({std::to_string(trial.id), format_ms(trial.predicted_ms), measured ? format_ms(trial.measured_ms) : "-",
               measured ? ratio_text(trial, " (") : "-", trial.state.text(), printable(trial.reason),
               change_ms > 0 ? format_ms(change_ms) : "-", printable(plan_text(trial.plan, ""))});
    const api::SwitchPhases phases = trial.switch_phases_ms.value_or(api::SwitchPhases{});
    if (!is_told(phases)) continue;
    const std::int64_t paid = trial.break_even_steps.value_or(0);
    changes += "the change to trial " + std::to_string(trial.id) + "'s plan took " + change_text(change_ms, phases) +
               (paid > 0 ? "; it has paid after " + std::to_string(paid) + " steps" : "") + "\n";
  }
  return table.empty() ? "no trials yet\n" : table.str() + changes;
}

std::string describe(const std::vector<api::AuditEntry>& entries) {
  TextTable table({"when (UTC)", "who", "job", "what", "why"});
  for (const api::AuditEntry& entry : entries) {
    table.add(
        {utc(entry.at_ns), printable(entry.who), printable(entry.job), printable(entry.what), printable(entry.why)});
  }
  return table.empty() ? "the audit log is empty\n" : table.str();
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
  if (names.empty())
    return bad_input("the coordinator knows no job yet; hand one in with 'trimtab tune --job job.toml'");
  if (wanted.empty()) return bad_input("several jobs are known, name one with --job: " + joined(names));
  return bad_input("--job: there is no job '" + wanted + "'" + did_you_mean(wanted, names) +
                   " Known are: " + joined(names) + ".");
}

}  // namespace trimtab::cli
