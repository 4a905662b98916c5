#include "tuning/trial/gains.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "tuning/state.hpp"
#include "tuning/trial/interleaving.hpp"

namespace trimtab::coordinator {
namespace {

bool is_doubtful(const Reason& reason) {
  return reason == FailureReason::kClock || reason == FailureReason::kCorruptMeasurement ||
         reason == FailureReason::kUnexpectedPlan;
}

bool was_compared(const TuningState& state) {
  return state.compares_initial() ? state.compared : state.retuned_compared;
}

std::optional<ToldGain> by_adopted_trials(const TuningState& state) {
  ToldGain gain{{}, api::GainBy::kTrials, {}};
  double above = 0;
  double below = 0;
  for (const Trial& trial : state.trials) {
    if (trial.id <= state.trials_before_tuning || trial.state != TrialState::kAdopted) continue;
    gain.ratio.ratio *= trial.ratio.ratio;
    above = root_of_squares(above, std::log(trial.ratio.high / trial.ratio.ratio));
    below = root_of_squares(below, std::log(trial.ratio.ratio / trial.ratio.low));
    gain.trials.push_back(trial.id);
  }
  if (gain.trials.empty() || gain.ratio.ratio == 1) return std::nullopt;
  gain.ratio.low = gain.ratio.ratio * std::exp(-below);
  gain.ratio.high = gain.ratio.ratio * std::exp(above);
  return gain;
}

std::optional<ToldGain> of_latest_tuning(const TuningState& state) {
  if (!was_compared(state)) return by_adopted_trials(state);
  if (state.incumbent.hash == state.compared_plan().hash) return std::nullopt;
  return ToldGain{state.compares_initial() ? state.final_ratio : state.retuned_ratio, api::GainBy::kComparison, {}};
}

std::optional<ToldGain> before_change(const TuningState& state) {
  for (auto drift = state.hardware.drifts.rbegin(); drift != state.hardware.drifts.rend(); ++drift) {
    if (drift->gained_before.ratio == 1) continue;
    const auto by = drift->gained_in.empty() ? api::GainBy::kComparison : api::GainBy::kTrials;
    return ToldGain{drift->gained_before, by, drift->gained_in, drift->since_step};
  }
  return std::nullopt;
}

std::optional<ToldGain> not_kept(const TuningState& state) {
  const Trial* best = nullptr;
  for (const Trial& trial : state.trials) {
    const bool counts = trial.measured.steps > 0 && trial.ratio.ratio > 1 && trial.ratio.low > 0 &&
                        trial.id > state.trials_before_tuning;
    if (counts && (best == nullptr || trial.ratio.ratio > best->ratio.ratio)) best = &trial;
  }
  if (best == nullptr) return std::nullopt;
  return ToldGain{best->ratio, api::GainBy::kTrialNotKept, {best->id}};
}

std::string trials_of(const std::vector<std::int32_t>& ids) {
  std::string text = ids.size() == 1 ? "trial " : "trials ";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ids.size() ? " and " : ", ") + std::to_string(ids[i]);
  }
  return text;
}

}  // namespace

void keep_measured(const Interleaving& blocks, const Ratio& ratio, const PairNoise& noise, Trial& trial) {
  trial.incumbent = summarize(blocks.first(), noise);
  trial.measured = summarize(blocks.second(), noise);
  trial.ratio = ratio;
}

void forget_if_doubtful(const Reason& reason, Trial& trial) {
  if (!is_doubtful(reason)) return;
  trial.incumbent = trial.measured = {};
  trial.ratio = {};
}

std::optional<ToldGain> told_gain(const TuningState& state) {
  if (auto gain = of_latest_tuning(state)) return gain;
  if (auto gain = before_change(state)) return gain;
  return not_kept(state);
}

std::string words(const Ratio& ratio) {
  const std::string interval = ratio.has_interval()
                                   ? "95 %: " + format_fixed(ratio.low, 2) + " to " + format_fixed(ratio.high, 2)
                                   : "too few steps for an interval";
  return format_fixed(ratio.ratio, 2) + "x as fast (" + interval + ")";
}

std::string words(const ToldGain& gain) {
  return words(gain.ratio) + ", as " + trials_of(gain.trials) + " measured it in turn";
}

bool was_tuned_again(const TuningState& state) {
  return state.hardware.retune_wait > 0;
}

std::optional<ToldGain> gained(const TuningState& state) {
  return of_latest_tuning(state);
}

}  // namespace trimtab::coordinator
