
#include <algorithm>
#include <set>
#include <span>

#include "documents/job_names.hpp"
#include "documents/members.hpp"

namespace trimtab {

namespace {

constexpr auto kMostNs = static_cast<std::int64_t>(kMaxDeadlineSeconds * 1e9);
constexpr IntegerLimits kTime{1, kMostNs, "a time in nanoseconds"};

}  // namespace

std::string_view to_string(JobMode mode) {
  return kJobModes[static_cast<std::size_t>(mode)];
}

bool is_job_name(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= 64 && name.find_first_not_of(kAllowed) == std::string_view::npos &&
         name.find_first_not_of('.') != std::string_view::npos;
}

// Times are nanoseconds: the JSON form travels between our own processes and must come back bit for bit.
template <typename M>
void members(M& m, Of<TrialSettings> auto& trials) {
  for (const auto& [name, count, low, help] : kTrialCounts) {
    m.always(name, trials.*count,
             {low, kPositive32.high, low == 0 ? "an integer of at least 0" : "a positive integer"});
  }
  m.always("minimum_gain", trials.minimum_gain);
  m.always("overhead", trials.overhead);
  m.always("deadline_ns", trials.deadline, kTime);
  m.unless(TrialSettings().look_every, "look_every_ns", trials.look_every, {0, kMostNs, kTime.name});
  m.unless(TrialSettings().lasting, "lasting_ns", trials.lasting, {0, kMostNs, kTime.name});
  m.unless(TrialSettings().measure_again, "measure_again_ns", trials.measure_again, {0, kMostNs, kTime.name});
  m.unless(TrialSettings().prepare, "prepare", trials.prepare);
  m.word("after", trials.stop_after, kAfterTuning);
  if constexpr (M::kReads) {
    if (!is_look_period(trials.look_every)) m.in.at("look_every_ns").fail(kLookRule);
    if (!is_lasting(trials.lasting)) m.in.at("lasting_ns").fail(kLastingRule);
    if (!is_pause(trials.measure_again)) m.in.at("measure_again_ns").fail(kPauseRule);
    if (!is_gain(trials.minimum_gain)) m.in.at("minimum_gain").fail(kGainRule);
    if (!is_overhead(trials.overhead)) m.in.at("overhead").fail(kOverheadRule);
  }
}

void members(auto& m, Of<CrashSettings> auto& crashes) {
  m.always("limit", crashes.limit, {0, kMaxCrashes, "an integer between 0 and 99"});
  m.always("within_ns", crashes.within, kTime);
  m.always("within_steps", crashes.within_steps, {0, kMaxCrashSteps, "an integer between 0 and 1000000000"});
}

template <typename M>
void members(M& m, Of<OwnKnob> auto& knob) {
  m.needed("name", knob.name);
  m.word("class", knob.change_class, kChangeClasses);
  m.list("values", knob.values);
  m.unless({}, "when", knob.when);
  if constexpr (M::kReads) {
    m.in.at("values").each([&](const JsonReader& settings) {
      settings.each_member([&](const std::string& key, const JsonReader& value) {
        const Status known = check_own_setting(key, value.text());
        if (!known.ok()) value.refuse(known.error().message);
      });
    });
  }
}

template <typename M>
void members(M& m, Of<Job> auto& job) {
  m.needed("name", job.name);
  if constexpr (M::kReads) {
    if (!is_job_name(job.name)) m.in.at("name").fail(kJobNameRule);
  }
  m.word("mode", job.mode, kJobModes);
  m.word("delivery", job.delivery, kDeliveries);
  m.always("world_size", job.world_size, {1, kMaxWorldSize, "a number of ranks between 1 and 65536"});
  m.always("memory_limit_bytes", job.memory_limit);
  m.always("steps", job.steps);
  m.word("class", job.change_class, kChangeClasses);
  m.always("working_directory", job.working_directory);
  m.inside("commands", [&](auto& commands) {
    for (const auto& [name, arguments, help] : kCommands) commands.always(name, job.*arguments);
  });
  m.always("environment", job.environment);
  m.unless(false, "elastic", job.elastic);
  m.unless(false, "share_devices", job.share_devices);
  m.unless(true, "near_costs", job.near_costs);
  m.unless(false, "allow_restarts", job.allow_restarts);
  m.unless("", "target", job.target);
  m.unless("", "strategy", job.strategy);
  m.unless("", "checkpoint", job.checkpoint);
  m.unless(Nanoseconds(0), "walltime_ns", job.walltime);
  m.unless(Job().hang, "hang_ns", job.hang, kTime);
  m.unless({}, "software", job.software);
  m.unless("", "initial_plan_json", job.initial_plan_json);
  m.unless("", "model_json", job.model_json);
  m.inside("knobs", [&](auto& knobs) {
    // Later ones are written where they are true.
    constexpr std::size_t kAlways = 10;
    for (const auto& [name, knob] : std::span(kKnobs).first(kAlways)) knobs.always(name, job.knobs.*knob);
    for (const auto& [name, knob] : std::span(kKnobs).subspan(kAlways)) knobs.unless(false, name, job.knobs.*knob);
  });
  bool hold = !M::kReads && says_what_it_honours(job.target);
  m.unless(false, "knobs_hold", hold);
  if constexpr (M::kReads) {
    // Earlier releases searched all that a target honours, and wrote `false` for what nobody had named.
    for (const auto& [name, knob] : kTargetKnobs) {
      if (says_what_it_honours(job.target) && !hold) job.knobs.*knob = true;
    }
  }
  m.unless({}, "own_knobs", job.own_knobs);
  m.always("trials", job.trials);
  m.always("crashes", job.crashes);
}

Result<Job> parse_job(std::string_view json, std::string_view source) {
  return parse_document<Job>(json, source, kJobSchema);
}

std::string to_json(const Job& job) {
  return written_document(job, kJobSchema);
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
