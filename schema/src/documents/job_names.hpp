#pragma once

// The words of job.toml and of a job as JSON, and the checks that both share.

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "schema/job.hpp"
#include "schema/job_name.hpp"

namespace trimtab {

inline constexpr std::string_view kJobSchema = "trimtab.job/1";
inline constexpr std::string_view kJobModes[] = {"observe", "recommend", "approve", "auto"};
inline constexpr std::string_view kDeliveries[] = {"live", "restart"};
inline constexpr std::string_view kChangeClasses[] = {"exact", "rounding", "statistical"};
inline constexpr std::int64_t kMaxWorldSize = 65536;

inline constexpr const char* kJobNameRule = "1 to 64 letters, digits, dots, dashes and underscores, not only dots";

// Targets but the reference trainer, whose jobs say by their knobs what it honours.
[[nodiscard]] inline bool says_what_it_honours(std::string_view target) {
  return !target.empty() && target != "trainer";
}
// Off by default, and searched as far as the target honours them where it says so and the job does not say no.
inline constexpr KnobName kTargetKnobs[] = {{"tensor_parallel", &Knobs::tensor_parallel}, {"sharded", &Knobs::sharded}};

struct TrialCount {
  std::string_view name;
  std::int32_t TrialSettings::*count;
  std::int32_t low;
  const char* help;
};
inline constexpr TrialCount kTrialCounts[] = {
    {"warmup_steps", &TrialSettings::warmup_steps, 0, "steps after a change of plan that count for nothing, at least"},
    {"measure_steps", &TrialSettings::measure_steps, 1, "steps of a block"},
    {"blocks", &TrialSettings::blocks, 1,
     "how often incumbent and candidate run in turn. More often while a gain is not sure"},
    {"candidates", &TrialSettings::candidates, 1, "plans that are tried after each search"},
    {"max_trials", &TrialSettings::max_trials, 0, "plans that are tried until tuning ends"},
    {"loss_check_steps", &TrialSettings::loss_check_steps, 0,
     "steps of the untuned run whose losses are compared, with after = \"stop\""}};

// trials.after: what becomes of the job once tuning is over.
inline constexpr std::string_view kAfterTuning[] = {"continue", "stop"};

struct CommandName {
  std::string_view name;
  std::vector<std::string> Job::*arguments;
  const char* help;
};
inline constexpr CommandName kCommands[] = {
    {"describe", &Job::describe, "prints model.json. Needed where there is no `model`, but to observe"},
    {"benchmark", &Job::benchmark, "measures what the tuner asks for, on all ranks at once"},
    {"train", &Job::train, "starts a rank. Needed"},
    {"submit", &Job::submit, "hands a launch to a scheduler, which starts the ranks"}};

inline constexpr double kMaxDeadlineSeconds = 1e7;

// trials.look_every_s; 0 = never.
[[nodiscard]] inline bool is_look_period(Nanoseconds period) {
  return period.count() == 0 || period >= std::chrono::seconds(1);
}
inline constexpr const char* kLookRule = "0 or at least 1 s, at most 1e7";

// trials.lasting_s; 0 = a few blocks.
[[nodiscard]] inline bool is_lasting(Nanoseconds time) {
  return time.count() == 0 || (time >= std::chrono::seconds(1) && time <= std::chrono::hours(1));
}
inline constexpr const char* kLastingRule = "0 or 1 s to 3600 s";

// trials.measure_again_s; 0 = never.
[[nodiscard]] inline bool is_pause(Nanoseconds time) {
  return time.count() == 0 || (time >= std::chrono::milliseconds(100) && time <= std::chrono::minutes(1));
}
inline constexpr const char* kPauseRule = "0 or 0.1 s to 60 s";

inline constexpr std::int64_t kMaxCrashes = 99;  // they are remembered one by one
inline constexpr std::int64_t kMaxCrashSteps = 1'000'000'000;

// trials.overhead: a share of the job's time.
[[nodiscard]] inline bool is_overhead(double share) {
  return share >= 0 && share <= 1;
}
inline constexpr const char* kOverheadRule = "a number from 0 to 1, such as 0.02 for 2 %";

// trials.minimum_gain: a share of a step's time.
[[nodiscard]] inline bool is_gain(double share) {
  return share >= 0 && share < 1;
}
inline constexpr const char* kGainRule = "a number from 0 to less than 1, such as 0.01 for 1 %";

}  // namespace trimtab
