#include "report/data.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "json_text.hpp"
#include "schema/timeline.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

// Reads optional fields and remembers the first that has a wrong type.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  const json* object(const json& parent, const char* field, const std::string& path) {
    return checked(parent, field, path, "an object", [](const json& value) { return value.is_object(); });
  }
  const json* array(const json& parent, const char* field, const std::string& path) {
    return checked(parent, field, path, "an array", [](const json& value) { return value.is_array(); });
  }
  std::optional<double> number(const json& parent, const char* field, const std::string& path) {
    const json* value =
        checked(parent, field, path, "a number", [](const json& candidate) { return candidate.is_number(); });
    return value == nullptr ? std::nullopt : std::optional<double>(value->get<double>());
  }
  std::optional<bool> boolean(const json& parent, const char* field, const std::string& path) {
    const json* value =
        checked(parent, field, path, "true or false", [](const json& candidate) { return candidate.is_boolean(); });
    return value == nullptr ? std::nullopt : std::optional<bool>(value->get<bool>());
  }
  std::string text(const json& parent, const char* field, const std::string& path) {
    const json* value =
        checked(parent, field, path, "a text", [](const json& candidate) { return candidate.is_string(); });
    return value == nullptr ? "" : value->get<std::string>();
  }
  void fail(const std::string& path, const std::string& message) {
    if (!error_) error_ = bad_input(source_ + ": " + path + ": " + message);
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  // Null and absent are the same: not known.
  const json* checked(const json& parent, const char* field, const std::string& path, const char* expected,
                      bool (*suits)(const json&)) {
    const auto found = parent.find(field);
    if (found == parent.end() || found->is_null()) return nullptr;
    if (suits(*found)) return &*found;
    fail(path + "." + field, std::string("expected ") + expected + ", but found " + found->type_name());
    return nullptr;
  }

  std::string source_;
  std::optional<Error> error_;
};

std::vector<tuner::TimelineEvent> read_timeline(Reader& reader, const json& run, const char* field,
                                                const std::string& path) {
  std::vector<tuner::TimelineEvent> timeline;
  const json* events = reader.array(run, field, path);
  if (events == nullptr) return timeline;
  for (const json& event : *events) {
    const std::string where = path + "." + field + "[" + std::to_string(timeline.size()) + "]";
    if (!event.is_object()) {
      reader.fail(where, "expected an object");
      return {};
    }
    const std::string kind = reader.text(event, "kind", where);
    const auto known = timeline_kind_named(kind);
    const auto stage = reader.number(event, "stage", where).value_or(-1);
    if (!known) reader.fail(where + ".kind", "unknown kind '" + kind + "'");
    if (stage < 0 || stage > 100'000) reader.fail(where + ".stage", "expected a stage's number");
    if (reader.error()) return {};
    timeline.push_back({static_cast<std::int32_t>(stage), *known,
                        static_cast<std::int32_t>(reader.number(event, "microbatch", where).value_or(-1)),
                        reader.number(event, "begin_ms", where).value_or(0),
                        reader.number(event, "end_ms", where).value_or(0)});
  }
  return timeline;
}

std::optional<Measured> read_measured(Reader& reader, const json& run, const std::string& path) {
  const json* value = reader.object(run, "measured_ms", path);
  if (value == nullptr) return std::nullopt;
  const std::string where = path + ".measured_ms";
  const auto mean = reader.number(*value, "mean", where);
  if (!mean || *mean <= 0) return std::nullopt;
  return Measured{*mean, reader.number(*value, "low", where).value_or(*mean),
                  reader.number(*value, "high", where).value_or(*mean),
                  static_cast<std::int64_t>(reader.number(*value, "steps", where).value_or(0))};
}

std::optional<Plan> read_plan(Reader& reader, const json& run, const char* field, const std::string& path) {
  const json* value = reader.object(run, field, path);
  if (value == nullptr || value->empty()) return std::nullopt;
  Result<Plan> plan = parse_plan(value->dump(), path + "." + field);
  if (plan.ok()) return std::move(plan).value();
  reader.fail(path + "." + field, plan.error().message);
  return std::nullopt;
}

// A time of 0 is one that nobody predicted.
std::optional<double> read_time(Reader& reader, const json& run, const char* field, const std::string& path) {
  const auto time = reader.number(run, field, path);
  return time && *time > 0 ? time : std::nullopt;
}

ReportRun read_run(Reader& reader, const json& run, const std::string& path) {
  ReportRun result;
  result.plan = read_plan(reader, run, "plan", path);
  result.predicted_ms = read_time(reader, run, "predicted_ms", path);
  result.predicted_before_ms = read_time(reader, run, "predicted_before_calibration_ms", path);
  result.measured = read_measured(reader, run, path);
  return result;
}

void read_timelines(Reader& reader, const json& root, ReportData& report) {
  const json* timelines = reader.object(root, "timeline", "$");
  if (timelines == nullptr) return;
  report.initial.timeline = read_timeline(reader, *timelines, "initial", "$.timeline");
  report.initial.measured_timeline = read_timeline(reader, *timelines, "initial_measured", "$.timeline");
  if (!report.adopted) return;
  report.adopted->timeline = read_timeline(reader, *timelines, "adopted", "$.timeline");
  report.adopted->measured_timeline = read_timeline(reader, *timelines, "adopted_measured", "$.timeline");
}

std::string plain_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::map<std::string, std::string> read_texts(Reader& reader, const json& parent, const char* field) {
  std::map<std::string, std::string> texts;
  const json* values = reader.object(parent, field, "$");
  if (values == nullptr) return texts;
  for (const auto& [name, value] : values->items()) {
    if (!value.is_object()) texts[name] = plain_text(value);
    if (!value.is_object()) continue;
    for (const auto& [inner, text] : value.items()) texts[name + "." + inner] = plain_text(text);
  }
  return texts;
}

std::int64_t read_integer(Reader& reader, const json& parent, const char* field, const std::string& path) {
  const double value = reader.number(parent, field, path).value_or(0);
  const bool fits = value >= 0 && value < 9e15;
  if (!fits) reader.fail(path + "." + field, "expected a number from 0 to 9e15");
  return fits ? static_cast<std::int64_t>(value) : 0;
}

std::optional<Interval> read_ratio(Reader& reader, const json& parent, const char* field, const std::string& path) {
  const json* value = reader.object(parent, field, path);
  if (value == nullptr) return std::nullopt;
  const std::string where = path + "." + field;
  const auto ratio = reader.number(*value, "ratio", where);
  if (!ratio) return std::nullopt;
  return Interval{*ratio, reader.number(*value, "low", where), reader.number(*value, "high", where)};
}

SwitchPhases read_phases(Reader& reader, const json& cost, const std::string& path) {
  SwitchPhases phases;
  const json* value = reader.object(cost, "switch_phases_ms", path);
  if (value == nullptr) return phases;
  for (const auto& [name, words] : kSwitchPhases) {
    const auto ms = reader.number(*value, std::string(name).c_str(), path + ".switch_phases_ms");
    if (ms && *ms > 0) phases.emplace_back(name, *ms);
  }
  return phases;
}

std::optional<StepTerms> read_terms(Reader& reader, const json& stage, const char* field, const std::string& path) {
  const json* value = reader.object(stage, field, path);
  if (value == nullptr) return std::nullopt;
  const auto ms = [&](const char* term) { return reader.number(*value, term, path + "." + field).value_or(0); };
  return StepTerms{ms("computation_ms"), ms("collectives_ms"), ms("gradients_ms"), ms("transfers_ms"), ms("idle_ms")};
}

std::vector<ReportStage> read_stages(Reader& reader, const json& trial, const std::string& trial_path) {
  std::vector<ReportStage> stages;
  const json* values = reader.array(trial, "stages", trial_path);
  if (values == nullptr) return stages;
  for (const json& value : *values) {
    const std::string path = trial_path + ".stages[" + std::to_string(stages.size()) + "]";
    if (!value.is_object()) reader.fail(path, "expected an object");
    if (reader.error()) return stages;
    stages.push_back({read_terms(reader, value, "predicted", path), read_terms(reader, value, "measured", path)});
  }
  return stages;
}

std::vector<ReportTrial> read_trials(Reader& reader, const json& root) {
  std::vector<ReportTrial> trials;
  const json* values = reader.array(root, "trials", "$");
  if (values == nullptr) return trials;
  for (const json& value : *values) {
    const std::string path = "$.trials[" + std::to_string(trials.size()) + "]";
    if (!value.is_object()) reader.fail(path, "expected an object");
    if (reader.error()) return trials;
    ReportTrial trial;
    trial.id = value.contains("id") ? plain_text(value["id"]) : std::to_string(trials.size() + 1);
    trial.run = read_run(reader, value, path);
    trial.state = reader.text(value, "state", path);
    trial.reason = reader.text(value, "reason", path);
    trial.message = reader.text(value, "message", path);
    if (const json* cost = reader.object(value, "cost", path)) {
      trial.switch_ms = reader.number(*cost, "switch_ms", path + ".cost");
      trial.switch_phases = read_phases(reader, *cost, path + ".cost");
      trial.steps = reader.number(*cost, "steps", path + ".cost");
      trial.overhead_ms = reader.number(*cost, "overhead_ms", path + ".cost");
    }
    if (trial.run.measured) trial.speedup = read_ratio(reader, value, "speedup", path);
    trial.break_even_steps = read_integer(reader, value, "break_even_steps", path);
    trial.stages = read_stages(reader, value, path);
    trials.push_back(std::move(trial));
  }
  return trials;
}

std::vector<ReportNotTried> read_not_tried(Reader& reader, const json& root) {
  std::vector<ReportNotTried> plans;
  const json* values = reader.array(root, "not_tried", "$");
  if (values == nullptr) return plans;
  for (const json& value : *values) {
    const std::string path = "$.not_tried[" + std::to_string(plans.size()) + "]";
    if (!value.is_object()) reader.fail(path, "expected an object");
    if (reader.error()) return plans;
    plans.push_back({read_plan(reader, value, "plan", path), read_time(reader, value, "predicted_ms", path),
                     reader.text(value, "reason", path)});
  }
  return plans;
}

std::optional<ReportOverhead> read_overhead(Reader& reader, const json& root) {
  const json* value = reader.object(root, "overhead", "$");
  if (value == nullptr) return std::nullopt;
  const auto ms = reader.number(*value, "ms", "$.overhead");
  if (!ms) return std::nullopt;
  return ReportOverhead{*ms, reader.number(*value, "share", "$.overhead").value_or(0),
                        reader.number(*value, "allowed_share", "$.overhead").value_or(0)};
}

// What befell the machine while the job ran.
template <typename Read>
void read_each(Reader& reader, const json& root, const char* field, Read read) {
  const json* values = reader.array(root, field, "$");
  if (values == nullptr) return;
  for (std::size_t i = 0; i < values->size() && !reader.error(); ++i) {
    const std::string path = std::string("$.") + field + "[" + std::to_string(i) + "]";
    if (!values->at(i).is_object()) return reader.fail(path, "expected an object");
    read(values->at(i), path);
  }
}

std::optional<std::int64_t> read_trials_before(Reader& reader, const json& change, const std::string& path) {
  if (!change.contains("trials_before")) return std::nullopt;
  return read_integer(reader, change, "trials_before", path);
}

void read_changes(Reader& reader, const json& root, ReportData& report) {
  read_each(reader, root, "drifts", [&](const json& value, const std::string& path) {
    report.drifts.push_back(
        {read_integer(reader, value, "since_step", path), read_integer(reader, value, "noticed_step", path),
         reader.number(value, "before_ms", path).value_or(0), reader.number(value, "after_ms", path).value_or(0),
         reader.text(value, "what", path), reader.text(value, "stale", path), read_trials_before(reader, value, path),
         reader.text(value, "during", path), read_ratio(reader, value, "gained_before", path)});
  });
  read_each(reader, root, "resizes", [&](const json& value, const std::string& path) {
    report.resizes.push_back({read_integer(reader, value, "step", path), reader.text(value, "lost", path),
                              read_integer(reader, value, "devices", path), reader.text(value, "joined", path),
                              reader.text(value, "outcome", path), read_trials_before(reader, value, path)});
  });
}

std::vector<LossPoint> read_losses(Reader& reader, const json& loss, const char* field) {
  std::vector<LossPoint> points;
  const json* list = reader.array(loss, field, "$.loss");
  if (list == nullptr) return points;
  for (const json& point : *list) {
    // A loss that was not a number comes as null.
    const bool usable = point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
    if (usable) points.push_back({point[0].get<double>(), point[1].get<double>()});
  }
  return points;
}

std::optional<LossCheck> read_loss(Reader& reader, const json& root) {
  const json* value = reader.object(root, "loss", "$");
  if (value == nullptr) return std::nullopt;
  LossCheck loss;
  loss.steps = reader.number(*value, "steps", "$.loss").value_or(0);
  loss.max_difference = reader.number(*value, "max_abs_difference_to_untuned_run", "$.loss");
  loss.same_samples = reader.boolean(*value, "same_samples", "$.loss");
  loss.note = reader.text(*value, "note", "$.loss");
  loss.tuned = read_losses(reader, *value, "tuned");
  loss.untuned = read_losses(reader, *value, "untuned");
  return loss;
}

void read_plans(Reader& reader, const json& root, ReportData& report) {
  if (const json* initial = reader.object(root, "initial", "$"))
    report.initial = read_run(reader, *initial, "$.initial");
  if (const json* adopted = reader.object(root, "adopted", "$"))
    report.adopted = read_run(reader, *adopted, "$.adopted");
  report.recommended = read_plan(reader, root, "recommendation", "$");
  read_timelines(reader, root, report);
}

ReportData read_report(Reader& reader, const json& root) {
  ReportData report;
  report.job = reader.text(root, "job", "$");
  report.fingerprint = reader.text(root, "fingerprint", "$");
  report.mode = reader.text(root, "mode", "$");
  read_plans(reader, root, report);
  report.compared = reader.boolean(root, "compared", "$").value_or(true);
  report.speedup = read_ratio(reader, root, "speedup", "$");
  report.retuned = read_ratio(reader, root, "retuned", "$");
  report.loss = read_loss(reader, root);
  report.trials = read_trials(reader, root);
  report.not_tried = read_not_tried(reader, root);
  if (const json* error = reader.object(root, "prediction_error", "$")) {
    report.error_before = reader.number(*error, "before_calibration", "$.prediction_error");
    report.error_after = reader.number(*error, "after_calibration", "$.prediction_error");
  }
  report.profiled = read_texts(reader, root, "profiled");
  if (const json* profiled = reader.object(root, "profiled", "$")) {
    report.profiling_seconds = reader.number(*profiled, "seconds", "$.profiled");
  }
  report.noise = read_texts(reader, root, "noise");
  report.search = read_texts(reader, root, "search");
  if (const auto found = report.search.find("explanation"); found != report.search.end()) {
    report.explanation = found->second;
    report.search.erase(found);
  }
  report.conclusion = reader.text(root, "conclusion", "$");
  report.failure = reader.text(root, "failure", "$");
  report.seconds = reader.number(root, "seconds", "$");
  report.tuning_seconds = reader.number(root, "tuning_seconds", "$");
  report.overhead = read_overhead(reader, root);
  read_changes(reader, root, report);
  return report;
}

}  // namespace

Result<ReportData> parse_report(std::string_view text, std::string_view source) {
  const auto parsed = parse_json(text);
  if (!parsed.ok()) return wrap(std::string(source), parsed.error());
  const json& root = *parsed;
  if (!root.is_object()) return bad_input(std::string(source) + ": expected a report (a JSON object)");
  Reader reader(source);
  const std::string schema = reader.text(root, "schema", "$");
  if (schema != "trimtab.report/1") {
    return bad_input(std::string(source) + ": $.schema: expected 'trimtab.report/1', but found '" + schema + "'");
  }
  ReportData report = read_report(reader, root);
  if (reader.error()) return *reader.error();
  return report;
}

}  // namespace trimtab::cli
