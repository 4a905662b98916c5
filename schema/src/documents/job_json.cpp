#include "schema/job.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "documents/job_names.hpp"
#include "documents/json_reader.hpp"

namespace trimtab {

namespace {

Knobs read_knobs(const JsonReader& in) {
  Knobs knobs;
  for (const auto& [name, knob] : kKnobs) knobs.*knob = in.at(name).flag_or(knobs.*knob);
  return knobs;
}

TrialSettings read_trials(const JsonReader& in) {
  TrialSettings trials;
  for (const auto& [name, count, low, help] : kTrialCounts) {
    const IntegerLimits limits{low, kPositive32.high, low == 0 ? "an integer of at least 0" : "a positive integer"};
    trials.*count = in.at(name).integer32_or(trials.*count, limits);
  }
  // Nanoseconds in the JSON form: it travels between our own processes and must come back bit for bit.
  const IntegerLimits limits{1, static_cast<std::int64_t>(kMaxDeadlineSeconds * 1e9), "a time in nanoseconds"};
  trials.deadline = Nanoseconds(in.at("deadline_ns").integer_or(trials.deadline.count(), limits));
  const IntegerLimits looks{0, static_cast<std::int64_t>(kMaxDeadlineSeconds * 1e9), "a time in nanoseconds"};
  trials.look_every = Nanoseconds(in.at("look_every_ns").integer_or(trials.look_every.count(), looks));
  if (!is_look_period(trials.look_every)) in.at("look_every_ns").fail(kLookRule);
  trials.minimum_gain = in.at("minimum_gain").number_or(trials.minimum_gain);
  if (!is_gain(trials.minimum_gain)) in.at("minimum_gain").fail(kGainRule);
  trials.overhead = in.at("overhead").number_or(trials.overhead);
  if (!is_overhead(trials.overhead)) in.at("overhead").fail(kOverheadRule);
  trials.stop_after = in.at("after").choice_or(0, kAfterTuning) == 1;
  return trials;
}

CrashSettings read_crashes(const JsonReader& in) {
  CrashSettings crashes;
  crashes.limit = in.at("limit").integer32_or(crashes.limit, {0, kMaxCrashes, "an integer between 0 and 99"});
  const IntegerLimits times{1, static_cast<std::int64_t>(kMaxDeadlineSeconds * 1e9), "a time in nanoseconds"};
  crashes.within = Nanoseconds(in.at("within_ns").integer_or(crashes.within.count(), times));
  const IntegerLimits steps{0, kMaxCrashSteps, "an integer between 0 and 1000000000"};
  crashes.within_steps = in.at("within_steps").integer_or(crashes.within_steps, steps);
  return crashes;
}

Job read_job(const JsonReader& root) {
  Job job;
  job.name = root.at("name").text();
  if (!is_job_name(job.name)) root.at("name").fail(kJobNameRule);
  job.mode = static_cast<JobMode>(root.at("mode").choice_or(0, kJobModes));
  job.delivery = static_cast<Delivery>(root.at("delivery").choice_or(0, kDeliveries));
  job.world_size = root.at("world_size").integer32_or(1, {1, kMaxWorldSize, "a number of ranks between 1 and 65536"});
  job.memory_limit = root.at("memory_limit_bytes").integer_or(0, kNonNegative);
  job.steps = root.at("steps").integer_or(0, kNonNegative);
  job.elastic = root.at("elastic").flag_or(false);
  job.target = root.at("target").text_or("");
  job.strategy = root.at("strategy").text_or("");
  job.checkpoint = root.at("checkpoint").text_or("");
  job.walltime = Nanoseconds(root.at("walltime_ns").integer_or(0, kNonNegative));
  const IntegerLimits times{1, static_cast<std::int64_t>(kMaxDeadlineSeconds * 1e9), "a time in nanoseconds"};
  job.hang = Nanoseconds(root.at("hang_ns").integer_or(job.hang.count(), times));
  job.change_class = kChangeClasses[root.at("class").choice_or(1, kChangeClasses)];
  job.initial_plan_json = root.at("initial_plan_json").text_or("");
  job.model_json = root.at("model_json").text_or("");
  job.working_directory = root.at("working_directory").text_or("");
  for (const auto& [name, arguments, help] : kCommands) job.*arguments = root.at("commands").at(name).texts();
  job.environment = root.at("environment").text_map();
  job.software = root.at("software").text_map();
  job.knobs = read_knobs(root.at("knobs"));
  // Earlier releases searched all that a target honours, and wrote `false` for what nobody had named.
  if (says_what_it_honours(job.target) && !root.at("knobs_hold").flag_or(false)) {
    for (const auto& [name, knob] : kTargetKnobs) job.knobs.*knob = true;
  }
  job.trials = read_trials(root.at("trials"));
  job.crashes = read_crashes(root.at("crashes"));
  return job;
}

}  // namespace

std::string_view to_string(JobMode mode) {
  return kJobModes[static_cast<std::size_t>(mode)];
}

std::string_view to_string(Delivery delivery) {
  return kDeliveries[static_cast<std::size_t>(delivery)];
}

bool is_job_name(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kAllowed) == std::string_view::npos &&
         name.find_first_not_of('.') != std::string_view::npos;
}

Result<Job> parse_job(std::string_view json, std::string_view source) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, source, kJobSchema));
  Job job = read_job(document.root());
  TRIMTAB_TRY_STATUS(document.status());
  return job;
}

std::string to_json(const Job& job) {
  OrderedJson json{{"schema", kJobSchema},
                   {"name", job.name},
                   {"mode", to_string(job.mode)},
                   {"delivery", to_string(job.delivery)},
                   {"world_size", job.world_size},
                   {"memory_limit_bytes", job.memory_limit},
                   {"steps", job.steps},
                   {"class", job.change_class},
                   {"working_directory", job.working_directory},
                   {"commands", OrderedJson::object()},
                   {"environment", job.environment}};
  if (job.elastic) json["elastic"] = true;
  if (!job.target.empty()) json["target"] = job.target;
  if (!job.strategy.empty()) json["strategy"] = job.strategy;
  if (!job.checkpoint.empty()) json["checkpoint"] = job.checkpoint;
  if (job.walltime.count() > 0) json["walltime_ns"] = job.walltime.count();
  if (job.hang != Job().hang) json["hang_ns"] = job.hang.count();
  if (!job.software.empty()) json["software"] = job.software;
  if (!job.initial_plan_json.empty()) json["initial_plan_json"] = job.initial_plan_json;
  if (!job.model_json.empty()) json["model_json"] = job.model_json;
  for (const auto& [name, arguments, help] : kCommands) json["commands"][std::string(name)] = job.*arguments;
  for (const auto& [name, knob] : kKnobs) json["knobs"][std::string(name)] = job.knobs.*knob;
  if (says_what_it_honours(job.target)) json["knobs_hold"] = true;
  for (const auto& [name, count, low, help] : kTrialCounts) json["trials"][std::string(name)] = job.trials.*count;
  json["trials"]["minimum_gain"] = job.trials.minimum_gain;
  json["trials"]["overhead"] = job.trials.overhead;
  json["trials"]["deadline_ns"] = job.trials.deadline.count();
  if (job.trials.look_every != TrialSettings().look_every) {
    json["trials"]["look_every_ns"] = job.trials.look_every.count();
  }
  json["trials"]["after"] = kAfterTuning[job.trials.stop_after ? 1 : 0];
  json["crashes"] = {{"limit", job.crashes.limit},
                     {"within_ns", job.crashes.within.count()},
                     {"within_steps", job.crashes.within_steps}};
  return dump(json);
}

std::vector<std::string> differing_keys(const Job& first, const Job& second) {
  const auto document = [](const Job& job) { return nlohmann::json::parse(to_json(job)); };
  std::set<std::string> keys;
  for (const auto& change : nlohmann::json::diff(document(first), document(second))) {
    // A pointer such as /commands/train/3: two levels say where to look.
    std::string path = change.at("path").get<std::string>().substr(1);
    const std::size_t below = path.find('/');
    if (below != std::string::npos) {
      path.resize(std::min(path.find('/', below + 1), path.size()));
      path[below] = '.';
    }
    keys.insert(std::move(path));
  }
  return {keys.begin(), keys.end()};
}

}  // namespace trimtab
