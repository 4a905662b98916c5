#include <algorithm>
#include <iterator>

#include "base/numbers.hpp"
#include "charts/svg.hpp"
#include "jobs/status_text.hpp"
#include "report/sections.hpp"

namespace trimtab::cli {

namespace {

std::string tile(const std::string& name, const std::string& value, const std::string& remark) {
  return "<div><dt>" + escape(name) + "</dt><dd>" + escape(value) +
         (remark.empty() ? "" : "<small>" + escape(remark) + "</small>") + "</dd></div>\n";
}

bool is_sure(const std::optional<api::Ratio>& gain) {
  return gain && gain->low.value_or(0) > 1.0;
}

// Whether it was measured in turn and the interval excludes "no gain".
bool is_gain(const ReportData& report) {
  if (report.told.compared) return is_sure(report.told.speedup);
  return gained_on_one_machine(report) && is_sure(*report.told.gain);
}

// Since the machine changed under the job.
bool gained_again(const ReportData& report) {
  return !report.told.drifts.empty() && is_sure(report.told.retuned);
}

// Of each time that the job was tuned, the first one first; nothing where no plan was adopted.
std::vector<std::optional<api::Ratio>> gains(const ReportData& report) {
  std::vector<std::optional<api::Ratio>> all;
  if (!report.told.resizes.empty()) return all;  // what was gained on other nodes is not stored
  for (const api::Drift& drift : report.told.drifts) {
    if (drift.trials_before) all.push_back(drift.gained_before);
  }
  if (!all.empty()) all.push_back(report.told.retuned);
  return all;
}

bool gained_once(const ReportData& report) {
  return std::ranges::any_of(gains(report), is_sure);
}

// Where tuning again has found nothing: what it had gained before.
std::string gained_before(const ReportData& report) {
  const auto all = gains(report);
  const auto last = std::ranges::find_if(all.rbegin(), all.rend(), is_sure);
  const bool at_first = std::next(last) == all.rend();
  return (at_first ? "" : "Tuned again: ") + format_fixed((*last)->ratio, 2) + "× faster";
}

std::string story(const ReportData& report) {
  const auto all = gains(report);
  std::string text =
      all.front() ? "The first tuning found a plan " + speedup_text(*all.front()) + " as fast as the initial one. "
                  : "";
  std::size_t time = 0;
  for (const api::Drift& drift : report.told.drifts) {
    if (!drift.trials_before) continue;
    const auto& gain = all[++time];
    text += took(drift) + ": " +
            (gain ? "what was adopted then is " + speedup_text(*gain) + " as fast as the plan before. "
                  : "no faster plan was adopted then. ");
  }
  return text;
}

std::string headline(const ReportData& report) {
  if (!report.told.failure.empty()) return "The job failed";
  if (gained_again(report)) return "Tuned again: " + format_fixed(report.told.retuned->ratio, 2) + "× faster";
  if (is_gain(report)) {
    const api::Ratio& gain = report.told.compared ? *report.told.speedup : *report.told.gain;
    return format_fixed(gain.ratio, 2) + "× faster";
  }
  if (gained_once(report)) return gained_before(report);
  if (report.is_as_launched()) return "As its user launched it";
  if (kept_initial(report)) return report.recommended ? "A faster plan is recommended" : "The initial plan stays";
  const bool measured = (report.told.compared && report.told.speedup) || gained_on_one_machine(report);
  return measured ? "No certain gain" : "No speed-up was measured";
}

std::string best_not_kept(const ReportData& report) {
  const auto& gain = report.told.gain;
  if (!gain || gain->by != api::GainBy::kTrialNotKept) return "";
  return " The best that was measured is " + gain_text(*gain) + ".";
}

std::string time_of(const ReportRun& run) {
  if (run.measured) return format_ms(run.measured->mean);
  return run.predicted_ms ? format_ms(*run.predicted_ms) + " predicted" : "not measured";
}

std::string lead(const ReportData& report) {
  if (!report.told.failure.empty()) return report.told.failure;
  if (!gained_again(report) && !is_gain(report) && gained_once(report)) return story(report);
  if (report.is_as_launched()) return "A step took " + time_of(report.initial) + ". Nothing was tuned.";
  if (kept_initial(report))
    return report.told.conclusion.empty() ? "No other plan was adopted."
                                          : "Tuning ended: " + report.told.conclusion + "." + best_not_kept(report);
  std::string text;
  if (gained_again(report)) {
    const auto last = std::ranges::find_if(report.told.drifts.rbegin(), report.told.drifts.rend(),
                                           [](const api::Drift& one) { return one.trials_before.has_value(); });
    const api::Drift& drift = last == report.told.drifts.rend() ? report.told.drifts.back() : *last;
    const std::string gain = ". What was adopted since is " + speedup_text(*report.told.retuned) +
                             " as fast as the plan before, measured in turn.";
    if (found_by_look(drift))
      return "The machine changed: at step " + std::to_string(drift.noticed_step) + " " + drift.what + gain;
    return "The machine changed: from step " + std::to_string(drift.since_step) + " on a step took " +
           format_ms(drift.after_ms) + " instead of " + format_ms(drift.before_ms) + gain;
  }
  if (report.adopted)
    text = "An iteration took " + time_of(report.initial) + ", now " + time_of(*report.adopted) + ". ";
  if (report.told.speedup && report.told.compared)
    text += "Speed-up " + speedup_text(*report.told.speedup) + ", both plans measured in turn in one run.";
  else if (gained_on_one_machine(report))
    text += "Speed-up " + gain_text(*report.told.gain) + ". There was no comparison at the end.";
  return text.empty() ? "The job ran without a measured comparison of plans." : text;
}

std::string interval_remark(const ReportRun& run) {
  if (!run.measured) return run.predicted_ms ? "predicted " + format_ms(*run.predicted_ms) : "";
  const Measured& measured = *run.measured;
  return format_ms(measured.low) + " to " + format_ms(measured.high) + " over " + std::to_string(measured.steps) +
         " steps";
}

std::string initial_remark(const ReportData& report) {
  const std::string remark = interval_remark(report.initial);
  if (!initial_predates_change(report)) return remark;
  return remark + (remark.empty() ? "" : ", ") + "before the machine changed";
}

std::string trial_remark(const ReportData& report) {
  int adopted = 0;
  for (const ReportTrial& trial : report.trials) adopted += trial.told.state == TrialState::kAdopted ? 1 : 0;
  return std::to_string(adopted) + " adopted";
}

std::string error_value(const ReportData& report) {
  const auto& [before, after, plans] = report.told.prediction_error;
  if ((!before && !after) || plans == 0) return "unknown";
  if (!after) return format_percent(*before);
  if (!before) return format_percent(*after);
  return format_percent(*before) + " → " + format_percent(*after);
}

std::string tiles(const ReportData& report) {
  std::string text = "<dl class=\"tiles\">\n";
  text += tile("Initial plan", time_of(report.initial), initial_remark(report));
  if (report.adopted) text += tile("Adopted plan", time_of(*report.adopted), interval_remark(*report.adopted));
  text += tile("Trials", std::to_string(report.trials.size()), trial_remark(report));
  text += tile("Prediction error", error_value(report), "before and after calibration");
  if (report.told.seconds) text += tile("Whole run", format_ms(*report.told.seconds * 1000), "");
  return text + "</dl>\n";
}

}  // namespace

bool kept_initial(const ReportData& report) {
  if (report.is_as_launched()) return true;
  if (!report.adopted || !report.adopted->plan || !report.initial.plan) return !report.adopted;
  return semantic_hash(report.adopted->plan->plan) == semantic_hash(report.initial.plan->plan);
}

bool gained_on_one_machine(const ReportData& report) {
  const auto& gain = report.told.gain;
  return gain && gain->by != api::GainBy::kTrialNotKept && !gain->until_step && !report.told.retuned;
}

std::string measured_text(const std::optional<Measured>& measured) {
  if (!measured) return "not measured";
  return format_ms(measured->mean) + " (" + format_ms(measured->low) + " to " + format_ms(measured->high) + ")";
}

std::string speedup_text(const api::Ratio& speedup, const std::string& interval) {
  std::string text = format_fixed(speedup.ratio, 2) + "×";
  if (speedup.low && speedup.high) {
    text += " (" + interval + format_fixed(*speedup.low, 2) + " to " + format_fixed(*speedup.high, 2) + ")";
  }
  return text;
}

std::string headline_section(const ReportData& report) {
  const std::string css = is_gain(report) || gained_again(report) || gained_once(report) ? " class=\"good\"" : "";
  return "<header>\n<p class=\"brand\">Trimtab <span>report of the job</span> " + escape(report.told.job) +
         "</p>\n<h1" + css + ">" + escape(headline(report)) + "</h1>\n<p class=\"lead\">" + escape(lead(report)) +
         "</p>\n" + tiles(report) + "</header>\n";
}

}  // namespace trimtab::cli
