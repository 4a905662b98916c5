#include "arguments.hpp"
#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

std::string noticed(const api::Drift& drift) {
  if (found_by_look(drift)) return "";
  return ", noticed at step " + std::to_string(drift.noticed_step) +
         (drift.during.empty() ? "" : " in " + drift.during) +
         (drift.what.empty() ? "; the cause is not known" : ": " + drift.what);
}

// ", 99.2 % sure".
std::string sure(const api::Drift& drift) {
  constexpr double kMost = 0.999;
  if (drift.what.empty() || drift.confidence <= 0) return "";
  return drift.confidence > kMost ? ", more than 99.9 % sure"
                                  : ", " + format_fixed(100 * drift.confidence, 1) + " % sure";
}

std::string drift_sentence(const api::Drift& drift) {
  return took(drift) + noticed(drift) + sure(drift) + (drift.stale.empty() ? "" : "; " + drift.stale) + ".";
}

std::string went_on(const api::Resize& resize) {
  const std::string who = resize.joined.empty() ? "without " + resize.lost : "with " + resize.joined;
  return "At step " + std::to_string(resize.step) + " the job went on " + who + ", on " +
         std::to_string(resize.devices) + " devices";
}

std::string resize_sentence(const api::Resize& resize) {
  return went_on(resize) + (resize.outcome.empty() ? "." : ": " + resize.outcome + ".");
}

// Whether this trial is the first that was made after so many.
// Trials of other tools may have ids that are no numbers: nothing is known of their order.
bool is_first_after(const ReportData& report, std::size_t trial, std::optional<std::int64_t> trials_before) {
  const auto id = parse_number<std::int64_t>(report.trials[trial].id);
  if (!id || !trials_before || *id <= *trials_before) return false;
  if (trial == 0) return true;
  const auto previous = parse_number<std::int64_t>(report.trials[trial - 1].id);
  return previous && *previous <= *trials_before;
}

}  // namespace

bool found_by_look(const api::Drift& drift) {
  return drift.before_ms == drift.after_ms;
}

std::string took(const api::Drift& drift) {
  if (found_by_look(drift)) {
    return "At step " + std::to_string(drift.noticed_step) + " a look at the hardware found, while steps took what " +
           "they took, " + drift.what;
  }
  return "From step " + std::to_string(drift.since_step) + " on a step took " + format_ms(drift.after_ms) +
         " instead of " + format_ms(drift.before_ms);
}

std::vector<std::string> changes_before(const ReportData& report, std::size_t trial) {
  std::vector<std::string> changes;
  for (const api::Drift& drift : report.told.drifts) {
    if (is_first_after(report, trial, drift.trials_before)) changes.push_back(took(drift));
  }
  for (const api::Resize& resize : report.told.resizes) {
    if (is_first_after(report, trial, resize.trials_before)) changes.push_back(went_on(resize));
  }
  return changes;
}

bool initial_predates_change(const ReportData& report) {
  if (report.told.compared) return false;
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    if (!changes_before(report, i).empty()) return true;
  }
  return false;
}

std::string changes_section(const ReportData& report) {
  std::string items;
  for (const api::Drift& drift : report.told.drifts) items += "<li>" + escape(drift_sentence(drift)) + "</li>\n";
  for (const api::Resize& resize : report.told.resizes) items += "<li>" + escape(resize_sentence(resize)) + "</li>\n";
  return section("What changed on the machine", items.empty() ? "" : "<ul>\n" + items + "</ul>\n");
}

}  // namespace trimtab::cli
