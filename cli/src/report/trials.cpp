#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "plans/plan_text.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

std::string cell(const std::string& text, const char* css_class) {
  return "<td class=\"" + std::string(css_class) + "\">" + escape(text) + "</td>";
}

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

std::string speedup(const api::Ratio& ratio) {
  std::string text = format_fixed(ratio.ratio, 2) + "×";
  if (ratio.low && ratio.high) text += " (" + format_fixed(*ratio.low, 2) + " to " + format_fixed(*ratio.high, 2) + ")";
  return text;
}

std::string row(const ReportTrial& trial) {
  const ReportRun& run = trial.run;
  std::string text = trial.told.state == TrialState::kAdopted ? "<tr class=\"won\">" : "<tr>";
  text += cell(trial.id, "number") + cell(run.plan ? one_line(*run.plan) : "not recorded", "plan");
  text += cell(run.predicted_ms ? format_ms(*run.predicted_ms) : "–", "number");
  text += cell(run.measured ? measured_text(run.measured) : "–", "spread");
  text += cell(trial.speedup ? speedup(*trial.speedup) : "–", "spread");
  text += verdict(trial) + cell(why(trial), "why");
  return text + cell(trial.told.cost.switch_ms ? format_ms(*trial.told.cost.switch_ms) : "–", "number") + "</tr>\n";
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
  std::string text = plan.plan ? one_line(*plan.plan) : "a plan that was not recorded";
  if (plan.predicted_ms) text += ": predicted " + format_ms(*plan.predicted_ms);
  return text + ", " + plan.reason;
}

std::string trials_section(const ReportData& report) {
  if (report.trials.empty()) return "";
  std::string body =
      "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"number\">Trial</th><th "
      "scope=\"col\">Plan</th>"
      "<th scope=\"col\" class=\"number\">Predicted</th><th scope=\"col\" class=\"number\">Measured</th>"
      "<th scope=\"col\" class=\"number\">Speed-up</th><th scope=\"col\">Verdict</th><th scope=\"col\">Reason</th>"
      "<th scope=\"col\" class=\"number\">Switch</th></tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < report.trials.size(); ++i) body += change_rows(report, i) + row(report.trials[i]);
  body += "</tbody></table></div>\n" + attribution_details(report);
  if (!report.not_tried.empty()) {
    body += "<details>\n<summary>Not tried: " + std::to_string(report.not_tried.size()) +
            (report.not_tried.size() == 1 ? " plan" : " plans") + "</summary>\n<ul>\n";
    for (const ReportNotTried& plan : report.not_tried) body += "<li>" + escape(not_tried_text(plan)) + "</li>\n";
    body += "</ul>\n</details>\n";
  }
  return section("What was tried", body);
}

}  // namespace trimtab::cli
