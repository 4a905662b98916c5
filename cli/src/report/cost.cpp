#include <algorithm>

#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "jobs/status_text.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

constexpr double kLeft = 150;
constexpr double kPlot = 640;
constexpr double kTop = 12;
constexpr double kBar = 16;
constexpr double kRow = 24;
constexpr std::size_t kMostTrials = 40;

// What it was spent on is empty where nobody told.
api::SwitchPhases phases_of(const ReportTrial& trial) {
  return trial.told.cost.switch_phases_ms.value_or(api::SwitchPhases{});
}

std::string break_even_sentence(const ReportData& report) {
  std::string text;
  for (const ReportTrial& trial : report.trials) {
    if (trial.told.state != TrialState::kAdopted || trial.told.break_even_steps <= 0) continue;
    text += " The change to trial " + trial.id + "'s plan has paid after " +
            std::to_string(trial.told.break_even_steps) + " steps.";
  }
  return text;
}

std::string change_sentence(const ReportData& report) {
  const ReportTrial* longest = nullptr;
  for (const ReportTrial& trial : report.trials) {
    const auto ms = trial.told.cost.switch_ms;
    if (!ms || !is_told(phases_of(trial))) continue;
    if (longest == nullptr || *ms > *longest->told.cost.switch_ms) longest = &trial;
  }
  return longest == nullptr ? ""
                            : " The longest change of plan took " +
                                  change_text(*longest->told.cost.switch_ms, phases_of(*longest)) + ".";
}

std::string times_sentence(const ReportData& report) {
  std::string text;
  if (report.told.profiled && report.told.profiled->seconds > 0) {
    text += " Profiling took " + format_ms(report.told.profiled->seconds * 1000) + " before the job's first step.";
  }
  if (report.told.tuning_seconds && *report.told.tuning_seconds > 0) {
    text += " Tuning was over after " + format_ms(*report.told.tuning_seconds * 1000) + ", in which the job trained.";
  }
  return text;
}

std::vector<ReportTrial> priced_trials(const ReportData& report) {
  std::vector<ReportTrial> trials;
  for (const ReportTrial& trial : report.trials) {
    if (trial.told.cost.overhead_ms && trials.size() < kMostTrials) trials.push_back(trial);
  }
  return trials;
}

// A bar for each trial.
std::string drawing(const std::vector<ReportTrial>& trials) {
  double most = 0;
  for (const ReportTrial& trial : trials) most = std::max(most, *trial.told.cost.overhead_ms);
  if (most <= 0) return "";
  const double height = kTop + kRow * static_cast<double>(trials.size());
  Svg svg(kLeft + kPlot + 110, height + 8, "Cost of each trial",
          "What each trial cost beyond the steps that the incumbent would have made meanwhile.");
  double y = kTop;
  for (const ReportTrial& trial : trials) {
    const api::TrialCost& cost = trial.told.cost;
    const double width = std::max(0.0, *cost.overhead_ms) / most * kPlot;
    svg.text(kLeft - 8, y + 12, "trial " + trial.id + ", " + trial.told.state.text(), "small", Anchor::kEnd);
    svg.rectangle(kLeft, y, width, kBar, trial.told.state == TrialState::kAdopted ? "point" : "point-lost",
                  cost.switch_ms ? "one change of plan took " + change_text(*cost.switch_ms, phases_of(trial)) : "");
    svg.text(kLeft + width + 6, y + 12, format_ms(*cost.overhead_ms), "small");
    y += kRow;
  }
  svg.line(kLeft, kTop - 4, kLeft, height, "axis");
  return svg.str();
}

}  // namespace

std::string cost_section(const ReportData& report) {
  if (report.trials.empty()) return "";
  std::string text;
  if (report.told.overhead) {
    text = "Beyond the incumbent's steps trials and comparisons cost " + overhead_text(*report.told.overhead) + ".";
  }
  text += change_sentence(report) + break_even_sentence(report) + times_sentence(report);
  const std::string chart = drawing(priced_trials(report));
  if (text.empty() && chart.empty()) return "";
  if (text.starts_with(' ')) text.erase(0, 1);
  return section("What it cost",
                 "<p>" + escape(text) + "</p>\n" +
                     figure(chart, "Changes of plan, and what steps took longer than the incumbent's."));
}

}  // namespace trimtab::cli
