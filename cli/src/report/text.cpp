#include "report/text.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "jobs/overhead_text.hpp"
#include "plans/plan_text.hpp"
#include "report/sections.hpp"
#include "text_table.hpp"

namespace trimtab::cli {

namespace {

constexpr std::size_t kColumn = 18;

std::string run_text(const char* name, const ReportRun& run) {
  return std::string(name) + measured_text(run.measured) + "  " + (run.plan ? one_line(*run.plan) : "") + "\n";
}

std::string gain_text(const ReportData& report) {
  if (!report.told.speedup || !report.told.compared)
    return "not measured: initial and adopted plan were not run in turn";
  return speedup_text(*report.told.speedup);
}

std::string trials_table(const ReportData& report) {
  TextTable table(
      {{"trial", true}, {"predicted", true}, {"measured", true}, {"verdict"}, {"reason"}, {"switch", true}, {"plan"}});
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    for (const std::string& change : changes_before(report, i)) table.add_line(change + ":");
    const ReportTrial& trial = report.trials[i];
    table.add({trial.id, trial.run.predicted_ms ? format_ms(*trial.run.predicted_ms) : "-",
               trial.run.measured ? format_ms(trial.run.measured->mean) : "-", trial.told.state.text(),
               trial.told.reason, trial.told.cost.switch_ms ? format_ms(*trial.told.cost.switch_ms) : "-",
               trial.run.plan ? one_line(*trial.run.plan) : ""});
  }
  return table.empty() ? "" : table.str(2);
}

// The first few; the page has all.
std::string not_tried_lines(const ReportData& report) {
  constexpr std::size_t kMost = 3;
  std::string text;
  const std::size_t shown = std::min(kMost, report.not_tried.size());
  for (std::size_t i = 0; i < shown; ++i) text += "  not tried: " + not_tried_text(report.not_tried[i]) + "\n";
  const std::size_t more = report.not_tried.size() - shown;
  if (more > 0) text += "  not tried: " + std::to_string(more) + " more, see the report\n";
  return text;
}

std::string error_text(const ReportData& report) {
  const auto& [before, after, plans] = report.told.prediction_error;
  if (!before || !after) return "";
  return "prediction error  " + format_percent(*before) + " before calibration, " + format_percent(*after) + " after\n";
}

}  // namespace

std::string report_text(const ReportData& report) {
  std::string text = run_text("initial plan      ", report.initial);
  if (initial_predates_change(report)) text += "                  before the machine changed\n";
  if (report.adopted) text += run_text("adopted plan      ", *report.adopted);
  if (report.recommended) text += "recommended plan  " + one_line(*report.recommended) + "\n";
  text += "speed-up          " + gain_text(report) + "\n";
  for (const api::Drift& drift : report.told.drifts) {
    if (!drift.gained_before) continue;
    text += "until step " + std::to_string(drift.since_step) + " ";
    text.resize(std::max<std::size_t>(text.size(), text.rfind('\n') + 1 + kColumn), ' ');
    text += speedup_text(*drift.gained_before) + " as fast as the plan that tuning began from\n";
  }
  if (report.told.retuned)
    text += "tuned again       " + speedup_text(*report.told.retuned) + " as fast as the plan before\n";
  text += error_text(report);
  if (report.told.overhead && !report.trials.empty()) {
    text += "tuning cost       " + overhead_text(*report.told.overhead) + "\n";
  }
  if (report.told.loss) text += "loss check        " + loss_text(*report.told.loss) + "\n";
  if (!report.told.conclusion.empty()) text += "tuning ended      " + report.told.conclusion + "\n";
  return text + trials_table(report) + not_tried_lines(report);
}

}  // namespace trimtab::cli
