#include "tuning/trial/budget.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "tuning/change/settling.hpp"
#include "tuning/trial/racing.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kComparisons = 2;  // begun, at most
constexpr double kLooksShare = 0.25;      // of what tuning may cost
constexpr double kBlockShare = 0.25;      // of a launch's time, that a block of a restarted job takes at least
constexpr double kMostSteps = 40;         // … but no more steps than that

// What the steps of a pair of blocks cost at these paces. Those of a live job's incumbent are the job's own.
double pair_steps_ms(const TuningState& state, double incumbent_ms, double candidate_ms) {
  const double steps = state.job.trials.warmup_steps + block_steps(state);
  return steps * (state.is_restarted() ? incumbent_ms + candidate_ms : std::max(0.0, candidate_ms - incumbent_ms));
}

// The least that a trial costs which can adopt the plan: A B B A, a change of plan in each pair, and the one after it.
// A restarted job that saves when it is asked to end is itself the first block. Else that is a launch, too.
double least_trial_ms(const TuningState& state, const PricedPlan& candidate) {
  const double incumbent_ms = state.incumbent_measured.mean_ms;
  const bool is_apart = state.is_restarted() && !state.stops.saves_at_stop;
  const double changes = kLeastPairs + 1 + (is_apart ? 1 : 0);
  const double steps_ms = kLeastPairs * pair_steps_ms(state, incumbent_ms, candidate.predicted.mean_ms);
  const double own_ms =
      state.is_restarted() && !is_apart ? (state.job.trials.warmup_steps + block_steps(state)) * incumbent_ms : 0;
  return changes * change_cost_ms(state) + steps_ms - own_ms;
}

double mean_ms(const Blocks& blocks, const TuningState& state) {
  return summarize(blocks, state.noise).mean_ms;
}

// What the steps that are left will take each if the trial ends as it is hoped: its plan may be adopted, and what was
// spent is then a share of a shorter job.
double pace_ms(const TuningState& state, const Interleaving* blocks) {
  const double incumbent_ms = state.incumbent_measured.mean_ms;
  if (!state.has_trial()) return incumbent_ms;
  const bool seen = blocks != nullptr && !blocks->second().empty() && !blocks->second().front().empty();
  const double candidate_ms = seen ? mean_ms(blocks->second(), state) : state.trials.back().predicted.mean_ms;
  return candidate_ms > 0 ? std::min(incumbent_ms, candidate_ms) : incumbent_ms;
}

double longest_switch_ms(const TuningState& state, double least) {
  for (const Trial& trial : state.trials) least = std::max(least, trial.switch_ms);
  return least;
}

// Of the steps that are left, if the candidate is adopted.
double hoped_pace_ms(const TuningState& state, const PricedPlan& candidate) {
  return std::min(state.incumbent_measured.mean_ms, candidate.predicted.mean_ms);
}

// What another trial may cost, at what those before did.
double next_trial_ms(const TuningState& state, const PricedPlan& candidate) {
  const double average = state.trials.empty() ? 0 : state.overhead_ms() / state.trials_begun();
  return std::max(average, least_trial_ms(state, candidate));
}

// The trial's own blocks, and then those of the final comparison. Only a plan's first warm-up is long: later ones find
// it compiled.
std::int64_t steps_for_trial(const TuningState& state) {
  const TrialSettings& settings = state.job.trials;
  const std::int64_t block = settings.warmup_steps + settings.measure_steps;
  const std::int64_t unsettled = most_warmup_steps(settings.warmup_steps) - settings.warmup_steps;
  return block * (2 * settings.blocks + 2 * kComparisonBlocks) + unsettled;
}

// "12000 steps (it has 1500)"
std::string steps_and_has(const TuningState& state, std::int64_t needed) {
  return std::to_string(needed) + " steps (it has " + std::to_string(state.job.steps) + ")";
}

}  // namespace

std::int32_t block_steps(const TuningState& state) {
  const std::int32_t asked = state.job.trials.measure_steps;
  const double step_ms = state.incumbent_measured.mean_ms;
  if (!state.is_restarted() || step_ms <= 0) return asked;
  const double wanted = std::min(kMostSteps, std::ceil(kBlockShare * change_cost_ms(state) / step_ms));
  return std::max(asked, static_cast<std::int32_t>(wanted));
}

double change_cost_ms(const TuningState& state) {
  return std::max(state.spent.dearest_change_ms, state.is_restarted() ? state.launch_ms + state.stops.copy_ms : 0.0);
}

std::string overhead_spent(const TuningState& state, const PricedPlan& candidate) {
  const double used = state.overhead_ms();
  const double next = next_trial_ms(state, candidate);
  const double allowed = state.allowed_overhead_ms(hoped_pace_ms(state, candidate));
  if (used + next < allowed) return "";
  const std::string& copy = state.stops.copy_words;
  return "trials have cost " + format_ms(used) + ", the next may cost " + format_ms(next) +
         " with the two pairs of blocks that adopting a plan takes" +
         (copy.empty() ? "" : " (each launch copies the checkpoint: " + copy + ")") + ", and all may cost " +
         format_ms(allowed) + ", " + format_percent(state.job.trials.overhead) + " of the job's time (trials.overhead)";
}

std::string overhead_needed(const TuningState& state, const PricedPlan& candidate) {
  const double needed_ms = state.overhead_ms() + next_trial_ms(state, candidate);
  const double pace_ms = hoped_pace_ms(state, candidate);
  const double share = needed_ms / std::max(state.job_ms(pace_ms), 1e-9);
  // Rounded up: what is told must be enough.
  const std::string other_share = "trials.overhead = " + format_number(std::ceil(share * 100 + 0.5) / 100);
  const std::string share_words = share < 0.99 ? other_share : "";
  const double allowed = state.job.trials.overhead;
  if (allowed <= 0) return share_words;
  const double left = std::max(0.0, (needed_ms / allowed - state.spent.trained_ms) / pace_ms);
  const auto steps = state.step + static_cast<std::int64_t>(std::ceil(left)) + 1;
  return "a job of " + steps_and_has(state, steps) + (share_words.empty() ? "" : ", or " + share_words);
}

std::string steps_needed_for_trial(const TuningState& state) {
  return "a job of " + steps_and_has(state, state.step + steps_for_trial(state));
}

double overhead_left_ms(const View& view, const Interleaving* blocks) {
  const TuningState& state = view.state;
  const bool is_away = state.runs_trial() || !view.running.is(state.incumbent);
  const double back_ms = is_away ? change_cost_ms(state) + state.incumbent_measured.mean_ms : 0;
  return state.allowed_overhead_ms(pace_ms(state, blocks)) - state.overhead_ms() - back_ms;
}

bool enough_overhead_for_pair(const TuningState& state, const Interleaving& blocks) {
  const auto pairs = static_cast<double>(std::max<std::size_t>(blocks.first().size(), 1));
  const double change_ms = change_cost_ms(state);
  // The first pair of a restarted job may have had two launches. Each later one has one.
  const double pair_ms = state.is_restarted() ? change_ms + pair_steps_ms(state, mean_ms(blocks.first(), state),
                                                                          mean_ms(blocks.second(), state))
                                              : state.trials.back().overhead_ms() / pairs;
  return state.overhead_ms() + pair_ms + change_ms <= state.allowed_overhead_ms(pace_ms(state, &blocks));
}

bool enough_overhead_for_look(const TuningState& state) {
  const double allowed = state.allowed_overhead_ms();
  return allowed > 0 && state.hardware.looks_ms + state.hardware.dearest_look_ms <= kLooksShare * allowed &&
         state.overhead_ms() + state.hardware.dearest_look_ms <= allowed;
}

bool enough_steps_for_trial(const TuningState& state) {
  return state.remaining_steps() >= steps_for_trial(state);
}

bool enough_walltime_for(std::int32_t pairs, const TuningState& state, const Moment& now) {
  if (state.job.walltime.count() == 0) return true;
  const TrialSettings& settings = state.job.trials;
  double launch_ms = longest_switch_ms(state, 0);
  if (launch_ms <= 0) launch_ms = milliseconds(settings.deadline);
  const double blocks = 2.0 * pairs;
  const double block_ms = (settings.warmup_steps + block_steps(state)) * state.incumbent_measured.mean_ms;
  const double needed_ms = blocks * block_ms + (blocks + 1) * launch_ms;
  const double used_ms = milliseconds(now.wall) - static_cast<double>(state.begun_wall_ns) / 1e6;
  return milliseconds(state.job.walltime) - used_ms > needed_ms;
}

std::string no_comparison(const View& view) {
  const TuningState& state = view.state;
  if (view.held()) return view.held_by();
  if (state.is_restarted() && !state.stops.saves_at_stop) {
    return "it would stop the job once more, which does not save when it is asked to end";
  }
  if (!state.stops.copy_refused.empty()) return state.stops.copy_refused;
  const std::int64_t of_block = state.job.trials.warmup_steps + state.job.trials.measure_steps;
  if (state.comparisons_begun >= kComparisons || state.remaining_steps() < 2 * kComparisonBlocks * of_block) {
    return "too few steps are left, or it failed before";
  }
  if (!enough_walltime_for(kComparisonBlocks, state, view.now)) return "too little walltime is left";
  const double switch_ms = longest_switch_ms(state, state.spent.dearest_change_ms);
  const Measured& other = state.compares_initial() ? state.initial_measured : state.retuned_from.measured;
  const double other_ms = other.mean_ms;
  const double incumbent_ms = state.incumbent_measured.mean_ms;
  const double of_pair_ms = state.is_restarted() ? other_ms + incumbent_ms : std::max(0.0, other_ms - incumbent_ms);
  const std::int64_t counted = state.job.trials.warmup_steps + block_steps(state);
  const double cost_ms =
      static_cast<double>(kComparisonBlocks * counted) * of_pair_ms + (kComparisonBlocks + 1) * switch_ms;
  if (state.overhead_ms() + cost_ms <= state.allowed_overhead_ms()) return "";
  return "it would cost " + format_ms(cost_ms) + " beside the " + format_ms(state.overhead_ms()) +
         " spent on tuning so far, more than trials.overhead allows";
}

}  // namespace trimtab::coordinator
