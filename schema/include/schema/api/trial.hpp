#pragma once

// A trial as the API tells it (GET /v1/jobs/NAME/trials), and what it has in common with the report's. Times are in ms,
// 0 where nothing was predicted or measured. Intervals are 95 %.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/api/fields.hpp"
#include "schema/api/phase.hpp"
#include "schema/prediction.hpp"

namespace trimtab::api {

using Interval = std::pair<double, double>;

struct Ratio {
  static constexpr const char* kName = "ratio";
  double ratio = 1;
  std::optional<double> low;
  std::optional<double> high;

  static constexpr void fields(auto&& visit) {
    visit("ratio", &Ratio::ratio, Presence::kAlways, "Above 1 the second plan is faster.");
    visit("low", &Ratio::low, Presence::kAlways, "");
    visit("high", &Ratio::high, Presence::kAlways, "");
  }
};

// How a gain is known.
enum class GainBy {
  kComparison,    // both plans in turn, at the end of tuning
  kTrials,        // those that adopted plans: each ran its plan in turn with the one before
  kTrialNotKept,  // one that measured a ratio, and whose plan the job does not keep
};
[[nodiscard]] std::span<const std::string_view> words_of(GainBy by);

// What tuning has gained, however it ended: the plan that it ended with over the one that it began from.
struct Gain : Ratio {
  static constexpr const char* kName = "gain";
  Word<GainBy> by;
  std::vector<std::int64_t> trials;
  std::optional<std::int64_t> until_step;

  static constexpr void fields(auto&& visit) {
    Ratio::fields(visit);
    visit("by", &Gain::by, Presence::kAlways, "How it was measured. What is not kept is of the trial alone.");
    visit("trials", &Gain::trials, Presence::kUsual,
          "Those that measured it, their ratios multiplied; none: at the end.");
    visit("until_step", &Gain::until_step, Presence::kIfAny, "It is of the machine as it was until then.");
  }
};

// Of one change of plan; the doc texts are what people are told. Parts that nobody told are left out.
struct SwitchPhases {
  static constexpr const char* kName = "switch_phases";
  double stop_ms = 0;
  double copy_ms = 0;
  double queue_ms = 0;
  double start_ms = 0;
  double save_ms = 0;
  double move_ms = 0;
  double groups_ms = 0;
  double build_ms = 0;
  double wait_ms = 0;
  double first_step_ms = 0;
  double warm_up_ms = 0;

  // In the order in which they come.
  static constexpr void fields(auto&& visit) {
    visit("stop", &SwitchPhases::stop_ms, Presence::kIfAny, "stopping and saving");
    visit("copy", &SwitchPhases::copy_ms, Presence::kIfAny, "copying the checkpoint");
    visit("queue", &SwitchPhases::queue_ms, Presence::kIfAny, "the scheduler's queue");
    visit("start", &SwitchPhases::start_ms, Presence::kIfAny, "starting");
    visit("save", &SwitchPhases::save_ms, Presence::kIfAny, "the snapshot");
    visit("move", &SwitchPhases::move_ms, Presence::kIfAny, "moving state");
    visit("groups", &SwitchPhases::groups_ms, Presence::kIfAny, "communicators");
    visit("build", &SwitchPhases::build_ms, Presence::kIfAny, "building modules");
    visit("wait", &SwitchPhases::wait_ms, Presence::kIfAny, "waiting for all ranks");
    visit("first_step", &SwitchPhases::first_step_ms, Presence::kIfAny, "the first step");
    visit("warm_up", &SwitchPhases::warm_up_ms, Presence::kIfAny, "slower steps until it was warm");
  }
};

// Where a step of one stage went.
struct Terms : StepTerms {
  static constexpr const char* kName = "terms";
  std::optional<double> own_ms = std::nullopt;
  std::optional<double> bubble_ms = std::nullopt;
  std::optional<double> launch_bound_ms = std::nullopt;
  std::optional<double> data_ms = std::nullopt;

  static constexpr void fields(auto&& visit) {
    visit("computation_ms", &StepTerms::computation_ms, Presence::kUsual, "");
    visit("collectives_ms", &StepTerms::collectives_ms, Presence::kUsual, "");
    visit("gradients_ms", &StepTerms::gradients_ms, Presence::kUsual, "");
    visit("transfers_ms", &StepTerms::transfers_ms, Presence::kUsual, "");
    visit("idle_ms", &StepTerms::idle_ms, Presence::kUsual, "");
    visit("own_ms", &Terms::own_ms, Presence::kIfAny,
          "Of computation_ms: collectives inside passes. On a device, as these.");
    visit("bubble_ms", &Terms::bubble_ms, Presence::kIfAny, "Of transfers_ms: the other stage was not there yet.");
    visit("launch_bound_ms", &Terms::launch_bound_ms, Presence::kIfAny,
          "Of idle_ms: the host handed work out too late.");
    visit("data_ms", &Terms::data_ms, Presence::kIfAny, "Of idle_ms: the next batch was awaited.");
  }
};

struct TrialStage {
  static constexpr const char* kName = "stage";
  std::optional<Terms> predicted;
  std::optional<Terms> measured;

  static constexpr void fields(auto&& visit) {
    visit("predicted", &TrialStage::predicted, Presence::kUsual, "Before the trial.");
    visit("measured", &TrialStage::measured, Presence::kUsual, "Means over the stage's ranks; null: not told.");
  }
};

// Of one whose plan is forgotten (docs/protocols.md) what comes after measured_ms is not known.
struct Trial {
  static constexpr const char* kName = "trial";
  std::int64_t id = 0;
  std::string hash;
  CarriedPlan plan;
  Word<TrialState> state;
  std::string reason;
  double predicted_ms = 0;
  double measured_ms = 0;
  std::optional<std::string> message;
  std::optional<Interval> predicted_interval_ms;
  std::optional<std::vector<TrialStage>> stages;
  std::optional<double> incumbent_ms;
  std::optional<Ratio> speedup;
  std::optional<double> switch_ms;
  std::optional<SwitchPhases> switch_phases_ms;
  std::optional<std::int64_t> break_even_steps;
  std::optional<std::int64_t> steps;

  static constexpr void fields(auto&& visit) {
    visit("id", &Trial::id, Presence::kAlways, "From 1.");
    visit("hash", &Trial::hash, Presence::kAlways, "Of the plan, equal for plans that mean the same.");
    visit("plan", &Trial::plan, Presence::kUsual, "");
    visit("state", &Trial::state, Presence::kAlways, "");
    visit("reason", &Trial::reason, Presence::kUsual, "Of a failed or rejected one: \"slower\", \"out_of_memory\".");
    visit("predicted_ms", &Trial::predicted_ms, Presence::kUsual, "Before the trial.");
    visit("measured_ms", &Trial::measured_ms, Presence::kUsual, "");
    visit("message", &Trial::message, Presence::kIfAny, "For people.");
    visit("predicted_interval_ms", &Trial::predicted_interval_ms, Presence::kIfAny, "");
    visit("stages", &Trial::stages, Presence::kIfAny, "Where a step went, stage by stage.");
    visit("incumbent_ms", &Trial::incumbent_ms, Presence::kIfAny, "The incumbent, measured in turn with it.");
    visit("speedup", &Trial::speedup, Presence::kIfAny, "The incumbent over it.");
    visit("switch_ms", &Trial::switch_ms, Presence::kIfAny, "What the longest change to it took.");
    visit("switch_phases_ms", &Trial::switch_phases_ms, Presence::kIfAny, "Where the time of that change went.");
    visit("break_even_steps", &Trial::break_even_steps, Presence::kIfAny,
          "Of an adopted one: until the change has paid; 0: not known.");
    visit("steps", &Trial::steps, Presence::kIfAny, "That it took, those of the incumbent beside it included.");
  }
};

struct Trials {
  std::vector<Trial> trials;

  static constexpr void fields(auto&& visit) { visit("trials", &Trials::trials, Presence::kNeeded, ""); }
};

}  // namespace trimtab::api
