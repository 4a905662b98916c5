#include <algorithm>
#include <array>

#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

struct Column {
  const char* heading;
  double StepTerms::*ms;
};
constexpr std::array<Column, 5> kColumns{{{"Computation", &StepTerms::computation_ms},
                                          {"Collectives", &StepTerms::collectives_ms},
                                          {"Gradients", &StepTerms::gradients_ms},
                                          {"Transfers", &StepTerms::transfers_ms},
                                          {"Idle", &StepTerms::idle_ms}}};

bool is_told(const ReportTrial& trial) {
  return std::ranges::any_of(trial.told.stages,
                             [](const api::TrialStage& stage) { return stage.measured.has_value(); });
}

std::string cell(const api::TrialStage& stage, double StepTerms::*ms) {
  std::string text = stage.measured ? format_ms(*stage.measured.*ms) : "–";
  if (stage.predicted) text += " (" + format_ms(*stage.predicted.*ms) + ")";
  return "<td class=\"number\">" + escape(text) + "</td>";
}

std::string rows(const ReportTrial& trial) {
  std::string text;
  for (std::size_t s = 0; s < trial.told.stages.size(); ++s) {
    text += "<tr><td class=\"number\">" + (s == 0 ? escape(trial.id) : "") + "</td><td class=\"number\">" +
            std::to_string(s) + "</td>";
    for (const Column& column : kColumns) text += cell(trial.told.stages[s], column.ms);
    text += "</tr>\n";
  }
  return text;
}

}  // namespace

std::string attribution_details(const ReportData& report) {
  std::string body;
  for (const ReportTrial& trial : report.trials) {
    if (is_told(trial)) body += rows(trial);
  }
  if (body.empty()) return "";
  std::string head;
  for (const Column& column : kColumns) {
    head += "<th scope=\"col\" class=\"number\">" + std::string(column.heading) + "</th>";
  }
  return "<details>\n<summary>Where a step of each stage went: measured, and in brackets as predicted before the "
         "trial</summary>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"number\">Trial</th>"
         "<th scope=\"col\" class=\"number\">Stage</th>" +
         head + "</tr></thead>\n<tbody>\n" + body + "</tbody></table></div>\n</details>\n";
}

}  // namespace trimtab::cli
