#include "report/report.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "files.hpp"
#include "jobs/status_text.hpp"
#include "plans/plan_text.hpp"
#include "report/sections.hpp"
#include "schema/job_without_plan.hpp"

namespace trimtab::cli {

namespace {

constexpr std::int64_t kMostStages = 100'000;

using Events = std::vector<tuner::TimelineEvent>;

Result<Events> events_of(const std::optional<api::Timeline>& timeline, const std::string& name) {
  Events events;
  for (const api::TimelineBar& bar : timeline.value_or(api::Timeline{})) {
    const std::string path = "$.timeline." + name + "[" + std::to_string(events.size()) + "]";
    const auto kind = timeline_kind_named(bar.kind.text());
    if (!kind) return bad_input(path + ".kind: unknown kind '" + bar.kind.text() + "'");
    if (bar.stage < 0 || bar.stage > kMostStages) return bad_input(path + ".stage: expected a stage's number");
    events.push_back({static_cast<std::int32_t>(bar.stage), *kind, static_cast<std::int32_t>(bar.microbatch),
                      bar.begin_ms, bar.end_ms});
  }
  return events;
}

// A time of 0 is one that nobody predicted.
std::optional<double> known_time(const std::optional<double>& ms) {
  return ms && *ms > 0 ? ms : std::nullopt;
}

std::optional<Measured> known(const std::optional<api::Measured>& measured) {
  if (!measured || measured->mean <= 0) return std::nullopt;
  const double mean = measured->mean;
  return Measured{mean, measured->low.value_or(mean), measured->high.value_or(mean), measured->steps};
}

Result<ReportRun> run_of(const api::MeasuredPlan& document, const std::string& path) {
  ReportRun run;
  TRIMTAB_TRY(run.plan, told_plan(document.plan, path + ".plan"));
  run.predicted_ms = known_time(document.predicted_ms);
  run.predicted_before_ms = known_time(document.predicted_before_calibration_ms);
  run.measured = known(document.measured_ms);
  return run;
}

// Trials of other tools may have ids that are no numbers.
std::string id_of(const api::TrialId& id) {
  const auto* text = std::get_if<std::string>(&id);
  return text != nullptr ? *text : std::to_string(std::get<std::int64_t>(id));
}

Status take_trials(ReportData& report) {
  for (api::ReportTrial& document : report.told.trials) {
    const std::size_t index = report.trials.size();
    ReportTrial trial;
    trial.id = document.id ? id_of(*document.id) : std::to_string(index + 1);
    TRIMTAB_TRY(trial.run, run_of(document, "$.trials[" + std::to_string(index) + "]"));
    if (trial.run.measured) trial.speedup = document.speedup;
    trial.told = std::move(document);
    report.trials.push_back(std::move(trial));
  }
  for (const api::NotTried& one : report.told.not_tried) {
    const std::string path = "$.not_tried[" + std::to_string(report.not_tried.size()) + "].plan";
    TRIMTAB_TRY(auto plan, told_plan(one.plan, path));
    report.not_tried.push_back({std::move(plan), known_time(one.predicted_ms), one.reason});
  }
  return {};
}

Status take_timelines(ReportData& report) {
  if (!report.told.timeline) return {};
  const api::Timelines& timelines = *report.told.timeline;
  TRIMTAB_TRY(report.initial.timeline, events_of(timelines.initial, "initial"));
  TRIMTAB_TRY(report.initial.measured_timeline, events_of(timelines.initial_measured, "initial_measured"));
  if (!report.adopted) return {};
  TRIMTAB_TRY(report.adopted->timeline, events_of(timelines.adopted, "adopted"));
  TRIMTAB_TRY(report.adopted->measured_timeline, events_of(timelines.adopted_measured, "adopted_measured"));
  return {};
}

// Reports of earlier releases tell of a comparison alone.
void take_gain(api::Report& document) {
  if (document.gain || !document.compared || !document.speedup) return;
  document.gain.emplace();
  static_cast<api::Ratio&>(*document.gain) = *document.speedup;
  document.gain->by = api::GainBy::kComparison;
}

Status take_plans(ReportData& report) {
  const api::Report& document = report.told;
  TRIMTAB_TRY(report.initial, run_of(document.initial, "$.initial"));
  if (document.adopted) {
    TRIMTAB_TRY(report.adopted, run_of(*document.adopted, "$.adopted"));
  }
  TRIMTAB_TRY(report.recommended, told_plan(document.recommendation, "$.recommendation"));
  TRIMTAB_TRY_STATUS(take_timelines(report));
  return take_trials(report);
}

constexpr std::size_t kColumn = 18;

std::string run_text(const char* name, const ReportRun& run) {
  return std::string(name) + measured_text(run.measured) + "  " + plan_of(run, "") + "\n";
}

std::string speedup_line(const ReportData& report) {
  const auto& gain = report.told.gain;
  if (gain && gain->by == api::GainBy::kTrialNotKept) return "none is kept; the best was " + gain_text(*gain);
  if (gained_on_one_machine(report)) return gain_text(*gain);
  if (report.told.speedup && report.told.compared) return speedup_text(*report.told.speedup);
  if (gain) return "of each time that the job was tuned: the next lines have them";
  return kept_initial(report) ? "none: the initial plan stays"
                              : "not measured: initial and adopted plan were not run in turn";
}

std::string trials_table(const ReportData& report) {
  TextTable table({">trial", ">predicted", ">measured", ">speed-up", "verdict", "reason", ">switch", "plan"});
  for (std::size_t i = 0; i < report.trials.size(); ++i) {
    for (const std::string& change : changes_before(report, i)) table.add_line(change + ":");
    const ReportTrial& trial = report.trials[i];
    table.add({trial.id, trial.run.predicted_ms ? format_ms(*trial.run.predicted_ms) : "-",
               trial.run.measured ? format_ms(trial.run.measured->mean) : "-",
               trial.speedup ? speedup_text(*trial.speedup, "") : "-", trial.told.state.text(), trial.told.reason,
               trial.told.cost.switch_ms ? format_ms(*trial.told.cost.switch_ms) : "-", plan_of(trial.run, "")});
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
  if (!before || !after || plans == 0) return "";
  return "prediction error  " + format_percent(*before) + " before calibration, " + format_percent(*after) + " after\n";
}

// "computation 1.08 times what it was (± 6 %, 7 probes)".
std::string finding_text(const api::NearFinding& one) {
  const std::string probes = std::to_string(one.probes) + (one.probes == 1 ? " probe" : " probes");
  const std::string sure = " (± " + format_fixed(196 * one.doubt, 0) + " %, " + probes + ")";
  if (one.verdict == "confirmed") return one.of + " as it was" + sure;
  if (one.verdict == "scaled") return one.of + " " + format_fixed(one.factor, 2) + " times what it was" + sure;
  return one.of + " measured anew";
}

}  // namespace

std::string plan_of(const ReportRun& run, const std::string& otherwise) {
  return run.plan ? printable(named_plan(run.plan, "")) : otherwise;
}

Result<ReportData> parse_report(std::string_view json, std::string_view source) {
  ReportData report;
  TRIMTAB_TRY(report.told, api::parse<api::Report>(json, source));
  take_gain(report.told);
  const Status taken = take_plans(report);
  if (!taken.ok()) return wrap(std::string(source), taken.error());
  return report;
}

Result<ReportData> write_report(const std::string& directory, std::string_view json, std::string_view source) {
  TRIMTAB_TRY_STATUS(replace_file(directory + "/report.json", json));
  TRIMTAB_TRY(ReportData report, parse_report(json, source));
  TRIMTAB_TRY_STATUS(replace_file(directory + "/report.html", report_html(report)));
  return report;
}

bool ReportData::is_as_launched() const {
  return told.initial.hash == kAsLaunched;
}

std::string taken_over_text(const api::TakenOver& taken) {
  return std::to_string(taken.costs) + " costs of hardware " + taken.from + " (" + taken.differences +
         "), not measured here: " + joined(taken.findings, ", ", finding_text);
}

std::string report_text(const ReportData& report) {
  if (report.is_as_launched()) {
    return "step              " + measured_text(report.initial.measured) + "  " + std::string(kAsLaunchedText) + "\n";
  }
  std::string text = run_text("initial plan      ", report.initial);
  if (initial_predates_change(report)) text += "                  before the machine changed\n";
  if (report.adopted) text += run_text("adopted plan      ", *report.adopted);
  if (report.recommended) text += "recommended plan  " + printable(named_plan(report.recommended, "")) + "\n";
  text += "speed-up          " + speedup_line(report) + "\n";
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
  if (report.told.taken_over) text += "taken over        " + taken_over_text(*report.told.taken_over) + "\n";
  if (report.told.loss) text += "loss check        " + loss_text(*report.told.loss) + "\n";
  if (!report.told.conclusion.empty()) text += "tuning ended      " + report.told.conclusion + "\n";
  return text + trials_table(report) + not_tried_lines(report);
}

}  // namespace trimtab::cli
