#include "report/data.hpp"

#include <utility>

#include "schema/timeline.hpp"

namespace trimtab::cli {

namespace {

constexpr std::int64_t kMostStages = 100'000;

using Events = std::vector<tuner::TimelineEvent>;

Result<std::optional<Plan>> plan_at(const api::CarriedPlan& carried, const std::string& path) {
  if (carried.json.empty() || carried.json == "{}") return std::optional<Plan>();
  if (carried.json.starts_with('"')) return bad_input(path + ": expected an object, but found string");
  auto plan = parse_plan(carried.json, path);
  if (!plan.ok()) return bad_input(path + ": " + plan.error().message);
  return std::optional(std::move(plan).value());
}

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
  TRIMTAB_TRY(run.plan, plan_at(document.plan, path + ".plan"));
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
    TRIMTAB_TRY(auto plan, plan_at(one.plan, path));
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

Status take_plans(ReportData& report) {
  const api::Report& document = report.told;
  TRIMTAB_TRY(report.initial, run_of(document.initial, "$.initial"));
  if (document.adopted) {
    TRIMTAB_TRY(report.adopted, run_of(*document.adopted, "$.adopted"));
  }
  TRIMTAB_TRY(report.recommended, plan_at(document.recommendation, "$.recommendation"));
  TRIMTAB_TRY_STATUS(take_timelines(report));
  return take_trials(report);
}

}  // namespace

Result<ReportData> parse_report(std::string_view json, std::string_view source) {
  ReportData report;
  TRIMTAB_TRY(report.told, api::parse<api::Report>(json, source));
  const Status taken = take_plans(report);
  if (!taken.ok()) return wrap(std::string(source), taken.error());
  return report;
}

}  // namespace trimtab::cli
