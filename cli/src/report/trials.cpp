#include <algorithm>
#include <array>

#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "plans/plan_text.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

std::string verdict(const ReportTrial& trial) {
  const char* css = trial.told.state == TrialState::kAdopted  ? "tight good"
                    : trial.told.state == TrialState::kFailed ? "tight bad"
                                                              : "tight";
  return cell(trial.told.state.text().empty() ? "unknown" : trial.told.state.text(), css);
}

std::string why(const ReportTrial& trial) {
  if (trial.told.message.empty()) return trial.told.reason;
  return trial.told.reason.empty() ? trial.told.message : trial.told.reason + ": " + trial.told.message;
}

std::string row(const ReportTrial& trial) {
  const ReportRun& run = trial.run;
  std::string text = trial.told.state == TrialState::kAdopted ? "<tr class=\"won\">" : "<tr>";
  text += cell(trial.id, "number") + cell(plan_of(run, "not recorded"), "plan");
  text += cell(run.predicted_ms ? format_ms(*run.predicted_ms) : "–", "number");
  text += cell(run.measured ? measured_text(run.measured) : "–", "spread");
  text += cell(trial.speedup ? speedup_text(*trial.speedup, "") : "–", "spread");
  text += verdict(trial) + cell(why(trial), "why");
  return text + cell(trial.told.cost.switch_ms ? format_ms(*trial.told.cost.switch_ms) : "–", "number") + "</tr>\n";
}

// What a stage's step is spent on.
struct Term {
  const char* heading;
  double StepTerms::*ms;
};
// What of it was for what, where a device's records tell.
struct TermPart {
  const char* heading;
  std::optional<double> api::Terms::*ms;
};
constexpr std::array<TermPart, 4> kParts{{{">in passes' collectives", &api::Terms::own_ms},
                                          {">in the bubble", &api::Terms::bubble_ms},
                                          {">launch-bound", &api::Terms::launch_bound_ms},
                                          {">waiting for data", &api::Terms::data_ms}}};
bool tells(const api::TrialStage& stage, const TermPart& part) {
  return stage.measured && (*stage.measured.*part.ms).has_value();
}
bool tells_parts(const api::TrialStage& stage) {
  return std::ranges::any_of(kParts, [&](const TermPart& part) { return tells(stage, part); });
}
constexpr std::array<Term, 5> kTerms{{{">Computation", &StepTerms::computation_ms},
                                      {">Collectives", &StepTerms::collectives_ms},
                                      {">Gradients", &StepTerms::gradients_ms},
                                      {">Transfers", &StepTerms::transfers_ms},
                                      {">Idle", &StepTerms::idle_ms}}};

std::string stage_rows(const ReportTrial& trial, bool with_parts) {
  std::string text;
  for (std::size_t s = 0; s < trial.told.stages.size(); ++s) {
    const api::TrialStage& stage = trial.told.stages[s];
    text += "<tr>" + cell(s == 0 ? trial.id : "", "number") + cell(std::to_string(s), "number");
    for (const Term& term : kTerms) {
      const std::string predicted = stage.predicted ? " (" + format_ms(*stage.predicted.*term.ms) + ")" : "";
      text += cell((stage.measured ? format_ms(*stage.measured.*term.ms) : "–") + predicted, "number");
    }
    for (std::size_t i = 0; with_parts && i < kParts.size(); ++i) {
      const bool is_predicted = stage.predicted && (*stage.predicted.*kParts[i].ms).has_value();
      text += cell((tells(stage, kParts[i]) ? format_ms(*(*stage.measured.*kParts[i].ms)) : "–") +
                       (is_predicted ? " (" + format_ms(*(*stage.predicted.*kParts[i].ms)) + ")" : ""),
                   "number");
    }
    text += "</tr>\n";
  }
  return text;
}

// What each stage spent its steps on, trial by trial, beside what was predicted; "" where nobody told.
std::string attribution_details(const ReportData& report) {
  std::string rows;
  const bool with_parts = std::ranges::any_of(
      report.trials, [](const ReportTrial& trial) { return std::ranges::any_of(trial.told.stages, tells_parts); });
  for (const ReportTrial& trial : report.trials) {
    if (std::ranges::any_of(trial.told.stages, [](const api::TrialStage& one) { return one.measured.has_value(); })) {
      rows += stage_rows(trial, with_parts);
    }
  }
  if (rows.empty()) return "";
  std::vector<Column> columns{">Trial", ">Stage"};
  for (const Term& term : kTerms) columns.emplace_back(term.heading);
  for (std::size_t i = 0; with_parts && i < kParts.size(); ++i) columns.emplace_back(kParts[i].heading);
  return "<details>\n<summary>Where a step of each stage went: measured, and in brackets as predicted before the "
         "trial</summary>\n" +
         html_table(columns, rows) + "</details>\n";
}

std::string change_rows(const ReportData& report, std::size_t trial) {
  std::string text;
  for (const std::string& change : changes_before(report, trial)) {
    text += "<tr><td colspan=\"8\" class=\"soft\">" + escape(change) + ".</td></tr>\n";
  }
  return text;
}

}  // namespace

std::string not_tried_text(const ReportNotTried& plan) {
  std::string text = printable(named_plan(plan.plan, "a plan that was not recorded"));
  if (plan.predicted_ms) text += ": predicted " + format_ms(*plan.predicted_ms);
  return text + ", " + plan.reason;
}

std::string trials_section(const ReportData& report) {
  if (report.trials.empty()) return "";
  std::string rows;
  for (std::size_t i = 0; i < report.trials.size(); ++i) rows += change_rows(report, i) + row(report.trials[i]);
  std::string body =
      html_table({">Trial", "Plan", ">Predicted", ">Measured", ">Speed-up", "Verdict", "Reason", ">Switch"}, rows) +
      attribution_details(report);
  if (!report.not_tried.empty()) {
    body += "<details>\n<summary>Not tried: " + std::to_string(report.not_tried.size()) +
            (report.not_tried.size() == 1 ? " plan" : " plans") + "</summary>\n<ul>\n";
    for (const ReportNotTried& plan : report.not_tried) body += "<li>" + escape(not_tried_text(plan)) + "</li>\n";
    body += "</ul>\n</details>\n";
  }
  return section("What was tried", body);
}

}  // namespace trimtab::cli
