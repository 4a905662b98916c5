// One trial: its beginning, its states, its end.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// A trial that is not sure of its gain goes on, up to so many times the blocks that the job asks for; up to so many in
// a job that has this many times the trial's steps before it, where a gain of a percent or two pays for looking longer.
constexpr std::int32_t kMostRounds = 3;
constexpr std::int32_t kMostRoundsOfLong = 6;
constexpr std::int64_t kLong = 20;
constexpr std::size_t kReplaced = 8;  // plans that are remembered to go back to, one after the other

std::string words(const Ratio& ratio) {
  return format_fixed(ratio.ratio, 2) + "x as fast (95 %: " + format_fixed(ratio.low, 2) + " to " +
         format_fixed(ratio.high, 2) + ")";
}

RaceRules race_rules(const TuningState& state, const Interleaving& blocks) {
  return {blocks.blocks(), state.job.trials.minimum_gain, state.trials.back().switch_ms, state.remaining_steps()};
}

}  // namespace

void Tuning::begin_trial(const Candidate& candidate) {
  const Trial& trial = trials_.begin(candidate);
  out_.note("trial", "trial " + std::to_string(trial.id) + ": predicted " + format_ms(trial.predicted.mean_ms) +
                         " a step beside the incumbent's measured " + format_ms(state_.incumbent_measured.mean_ms));
  if (view_.held()) {
    state_.trials.pop_back();
    state_.doing = Doing::kNothing;
    return;
  }
  const std::int32_t id = trial.id;
  trials_.change(forget_old_trials(state_));
  if (state_.job.mode == JobMode::kApprove) {
    state_.doing = Doing::kAwaitingApproval;
    out_.note("trial", "trial " + std::to_string(id) + " awaits approval");
    return;
  }
  start_trial();
}

void Tuning::go_on_trying() {
  const bool is_free = state_.phase == Phase::kTrials && state_.doing == Doing::kNothing;
  if (!is_free || view_.held() || !lost_.empty()) return;  // when every node is back, settled() goes on
  if (hardware_.is_due()) return explain_drift();
  if (learning_.watches()) return;
  hardware_.take_first_look();
  request_search();
}

void Tuning::start_trial() {
  const TrialSettings& settings = state_.job.trials;
  const Trial& trial = state_.trials.back();
  out_.decide("try plan " + trial.plan.hash + " in trial " + std::to_string(trial.id),
              "predicted " + format_ms(trial.predicted.mean_ms) + " a step beside the incumbent's measured " +
                  format_ms(state_.incumbent_measured.mean_ms));
  clock_check_ = {};
  learning_.begin_trial();
  overhead_.blame_trial(false);
  trials_.start();
  const std::int64_t of_pair = 2 * (settings.warmup_steps + settings.measure_steps);
  const bool is_long = state_.remaining_steps() >= kLong * kMostRoundsOfLong * settings.blocks * of_pair;
  const std::int32_t pairs = (is_long ? kMostRoundsOfLong : kMostRounds) * settings.blocks;
  interleaving_.emplace(BlockSizes{pairs, settings.warmup_steps, settings.measure_steps});
  out_.changed = true;
  next_block();
}

// After each pair of blocks.
void Tuning::judge_race() {
  const Race race =
      look(interleaving_->first(), interleaving_->second(), state_.noise, race_rules(state_, *interleaving_));
  if (race.state == RaceState::kFaster) return conclude_trial(race, FailureReason::kNone);
  if (race.state == RaceState::kSlower)
    return conclude_trial(race, race.ratio.ratio > 1 ? FailureReason::kGainTooSmall : FailureReason::kSlower);
  if (race.state != RaceState::kOpen)
    return conclude_trial(race, race.ratio.ratio > 1 ? FailureReason::kGainNotSure : FailureReason::kSlower);
  if (!enough_overhead_for_pair(state_, *interleaving_)) return conclude_trial(race, FailureReason::kOverhead);
  if (!enough_steps_for_trial(state_) || !enough_walltime_for(1, state_, now_))
    return conclude_trial(race, FailureReason::kGainNotSure);
  out_.note("trial", "trial " + std::to_string(state_.trials.back().id) + ": not sure yet, " + words(race.ratio) +
                         ": another pair of blocks");
  next_block();
}

void Tuning::conclude_trial(const Race& race, const Reason& reason) {
  if (const std::string why = clock_check_.contradiction(); !why.empty())
    return unbelievable(FailureReason::kClock, why);
  Trial& trial = state_.trials.back();
  trial.incumbent = summarize(interleaving_->first(), state_.noise);
  trial.measured = summarize(interleaving_->second(), state_.noise);
  trial.ratio = race.ratio;
  trial.reason = reason;
  trials_.set_state(TrialState::kMeasured);
  // A plan that was given up in its first block is known by that alone.
  const Blocks whole = interleaving_->whole_second();
  trials_.observe(trial.plan, whole.empty() ? trial.measured : summarize(whole, state_.noise));
  state_.incumbent_measured = trial.incumbent;
  state_.noise.learn_from_pairs(interleaving_->whole_first(), whole);
  interleaving_.reset();
  const bool adopt = race.state == RaceState::kFaster;
  trial.state = adopt ? TrialState::kAdopted : TrialState::kRejected;
  std::string consequence;
  if (adopt) {
    trial.break_even_steps = break_even_steps(trial.ratio, trial.incumbent.mean_ms, trial.switch_ms);
    const std::string phases = trial.switch_phases.words();
    consequence = "; the change, which took " + format_ms(trial.switch_ms) +
                  (phases.empty() ? "" : " (" + phases + ")") + ", has paid after " +
                  std::to_string(trial.break_even_steps) + " steps";
    state_.replaced.push_back({state_.incumbent, state_.incumbent_predicted, trial.incumbent});
    if (state_.replaced.size() > kReplaced) state_.replaced.erase(state_.replaced.begin());
    hardware_.change_plan(1 / trial.ratio.ratio, 1 / trial.ratio.high, 1 / trial.ratio.low);
    state_.incumbent = trial.plan;
    state_.incumbent_predicted = trial.predicted;
    state_.incumbent_measured = trial.measured;
  } else {
    consequence = ", " + reason.text();
  }
  out_.note("trial", "trial " + std::to_string(trial.id) + " " + std::string(to_string(trial.state)) + ": " +
                         words(trial.ratio) + consequence);
  out_.decide((adopt ? "adopt the plan of trial " : "reject the plan of trial ") + std::to_string(trial.id),
              words(trial.ratio) + consequence);
  // The ranks may run it already, and must know that it is no trial's any more.
  if (adopt && !state_.is_restarted() && running_.is(trial.plan))
    out_.act(ProposePlan{state_.committed_epoch, trial.plan.json, true});
  trials_.add_convergence(trial.id);
  roll_back();
}

void Tuning::fail_trial(const Reason& reason, const std::string& message, bool blame_candidate) {
  interleaving_.reset();
  trials_.fail(reason, message, blame_candidate);
}

// Whether to try the plan was asked, and what the question was about has changed: the job goes on as in training.
void Tuning::withdraw_question(const std::string& why) {
  fail_trial(FailureReason::kWithdrawn, "approval is asked for no longer: " + why, false);
  state_.conclusion = "trial " + std::to_string(state_.trials.back().id) + " was withdrawn: " + why;
  state_.tuned_wall_ns = now_.wall.count();
  enter(Phase::kTraining);
}

}  // namespace trimtab::coordinator
