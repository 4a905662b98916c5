#include "jobs/incident.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "base/units.hpp"
#include "jobs/redaction.hpp"
#include "jobs/status_text.hpp"
#include "plans/told_plan.hpp"
#include "schema/job_without_plan.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {
namespace {

constexpr std::size_t kLatestEntries = 8;
constexpr std::size_t kIndent = 11;

// "plan       " and the text, whose further lines stand below its first.
std::string row(const std::string& title, const std::string& text) {
  if (text.empty()) return "";
  return padded(title, kIndent, false) + printable_lines(text) + "\n";
}

std::string trains(const Incident& incident) {
  const api::Job& job = incident.job;
  const std::string at = "step " + std::to_string(job.step) + (job.steps > 0 ? " of " + std::to_string(job.steps) : "");
  if (!job.active) return "no: it is over (" + std::string(job.phase.text()) + "), " + at;
  if (is_halted(job)) return "no: it is halted, " + at;
  if (!job.waits_for.empty()) return "not yet: " + job.waits_for;
  const std::string pace = job.step_ms > 0 ? ", " + format_ms(job.step_ms) + " a step" : "";
  const std::string watched = " in " + format_number(incident.seconds, 0) + " s";
  if (incident.steps > 0) return "yes: " + at + pace + ", " + std::to_string(incident.steps) + " more" + watched;
  return "no step" + watched + " (phase " + std::string(job.phase.text()) + "), " + at + pace;
}

std::string plan_words(const api::JobPlan& plan) {
  if (plan.hash == kAsLaunched) return std::string(kAsLaunchedText);
  const auto told = told_plan(plan.plan.value_or(api::CarriedPlan{}), "plan");
  return told.ok() ? named_plan(*told, plan.hash) : plan.hash;
}

std::string runs(const Incident& incident) {
  const api::Job& job = incident.job;
  if (job.incumbent.hash.empty()) return "none yet";
  const std::string words = plan_words(job.incumbent);
  if (job.incumbent.hash == job.initial.hash) return words + " (the one that it began with)";
  const auto adopted = std::find_if(incident.trials.rbegin(), incident.trials.rend(), [&](const api::Trial& trial) {
    return trial.hash == job.incumbent.hash && trial.state == TrialState::kAdopted;
  });
  return words + (adopted == incident.trials.rend() ? "" : " (adopted by trial " + std::to_string(adopted->id) + ")");
}

std::string nodes_that_are_away(const Incident& incident) {
  std::string text;
  for (const api::Node& node : incident.nodes) {
    if (node.state == "connected" && !node.kill_switch) continue;
    text += (text.empty() ? "" : ", ") + node.name +
            (node.state == "connected" ? " (kill switch thrown)" : " (" + node.state + ")");
  }
  return text;
}

std::string what_was_done(const Incident& incident) {
  std::vector<api::AuditEntry> latest(
      incident.audit.end() - static_cast<std::ptrdiff_t>(std::min(incident.audit.size(), kLatestEntries)),
      incident.audit.end());
  return latest.empty() ? "" : "\nlast entries of the audit log\n" + describe(latest);
}

std::string what_to_do(const Incident& incident, const std::string& flag) {
  const std::string name = incident.job.name;
  std::string text = "\nwhat you can do\n";
  const auto add = [&](const std::string& command, const std::string& does) {
    text += "  " + command + flag + "\n      " + does + "\n";
  };
  const api::Job& job = incident.job;
  if (job.active && !job.watched && job.mode != "observe") {
    if (job.incumbent.hash != job.initial.hash || !job.frozen) {
      add("trimtab job own-plan --job " + name,
          "goes back to the plan that you began with, for good: nothing is tried any more");
    }
    if (!job.frozen)
      add("trimtab job freeze --job " + name, "keeps the plan that it runs; 'unfreeze' lets plans change again");
  }
  if (job.active && !job.watched) add("trimtab job stop --job " + name, "ends it after the step that it is in");
  add("trimtab incident " + name + " --bundle incident.json",
      "writes what a bug report needs, without names, paths and what ranks printed");
  return text;
}

}  // namespace

std::string incident_text(const Incident& incident, const std::string& flag) {
  const api::Job& job = incident.job;
  std::string text = "job " + printable(job.name) + "\n";
  text += row("trains", trains(incident));
  text += row("plan", runs(incident));
  text += row("held", job.held_by);
  text += row("now", job.trial ? trial_line(*job.trial) : "");
  const bool tried = !incident.trials.empty() && (!job.trial || incident.trials.back().id != job.trial->id);
  text += row("tried last", tried ? trial_line(incident.trials.back()) : job.trial ? "" : "nothing yet");
  text += row("tuning", job.conclusion.empty() ? "" : "ended: " + job.conclusion);
  text += row("why", job.failure);
  text += row("storage", job.storage_failure);
  text += row("nodes", nodes_that_are_away(incident));
  text += row("log", job.rank_0_log.value_or(""));
  return text + what_was_done(incident) + what_to_do(incident, flag);
}

nlohmann::ordered_json incident_bundle(const std::vector<std::pair<std::string, std::string>>& bodies,
                                       const std::string& release) {
  nlohmann::ordered_json documents;
  nlohmann::ordered_json left_out = nlohmann::ordered_json::array();
  Redaction redaction;
  for (const auto& [name, text] : bodies) {
    const auto document = nlohmann::ordered_json::parse(text, nullptr, false);
    if (document.is_discarded()) {
      left_out.push_back(name);
      continue;
    }
    redaction.learn(document);
    documents[name] = document;
  }
  return {{"schema", "trimtab.incident/1"},
          {"release", release},
          {"left_out", left_out},
          {"documents", redaction.apply(documents)}};
}

}  // namespace trimtab::cli
