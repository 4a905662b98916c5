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
constexpr Nanoseconds kNodeFallsSilent = std::chrono::seconds(30);
constexpr std::size_t kReplaced = 8;  // plans that are remembered to go back to, one after the other

std::string words(const Ratio& ratio) {
  return format_fixed(ratio.ratio, 2) + "x as fast (95 %: " + format_fixed(ratio.low, 2) + " to " +
         format_fixed(ratio.high, 2) + ")";
}

}  // namespace

void Tuning::begin_trial(const Candidate& candidate) {
  Trial trial;
  trial.id = state_.trials_begun() + 1;
  trial.plan = candidate.plan;
  trial.predicted = candidate.predicted;
  trial.predicted_terms = candidate.terms;
  trial.begun_step = state_.step;
  state_.trials.push_back(trial);
  out_.changed = true;
  out_.note("trial", "trial " + std::to_string(trial.id) + ": predicted " + format_ms(trial.predicted.mean_ms) +
                         " a step beside the incumbent's measured " + format_ms(state_.incumbent_measured.mean_ms));
  if (view_.held()) {
    state_.trials.pop_back();
    state_.doing = Doing::kNothing;
    return;
  }
  for (Trial& forgotten : forget_old_trials(state_)) changed_trials_.push_back(std::move(forgotten));
  if (state_.job.mode == JobMode::kApprove) {
    state_.doing = Doing::kAwaitingApproval;
    out_.note("trial", "trial " + std::to_string(trial.id) + " awaits approval");
    return;
  }
  start_trial();
}

void Tuning::go_on_trying() {
  const bool is_free = state_.phase == Phase::kTrials && state_.doing == Doing::kNothing;
  if (!is_free || view_.held() || !lost_.empty()) return;  // when every node is back, settled() goes on
  if (hardware_.is_due()) return explain_drift();
  if (watches_learning()) return;
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
  trial_learning_ = state_.learning;
  trial_learning_.stop();
  overhead_.blame_trial(false);
  to_candidate_.reset();
  const std::int64_t of_pair = 2 * (settings.warmup_steps + settings.measure_steps);
  const bool is_long = state_.remaining_steps() >= kLong * kMostRoundsOfLong * settings.blocks * of_pair;
  const std::int32_t pairs = (is_long ? kMostRoundsOfLong : kMostRounds) * settings.blocks;
  interleaving_.emplace(BlockSizes{pairs, settings.warmup_steps, settings.measure_steps});
  out_.changed = true;
  next_block();
}

void Tuning::set_trial(TrialState state) {
  Trial& trial = state_.trials.back();
  // Later blocks warm up and measure again: for people that is one measurement.
  if (trial.state == state || (trial.state == TrialState::kMeasuring && state < TrialState::kMeasuring)) return;
  trial.state = state;
  out_.changed = true;
}

void Tuning::changed_to_candidate(double ms, const SwitchPhases& phases) {
  to_candidate_ = ToCandidate{ms, phases, {}};
  take_change_to_candidate(*to_candidate_);
  set_trial(TrialState::kWarming);
}

// The longest counts.
void Tuning::take_change_to_candidate(const ToCandidate& change) {
  Trial& trial = state_.trials.back();
  if (change.ms < trial.switch_ms) return;
  trial.switch_ms = change.ms;
  trial.switch_phases = change.phases;
}

// A step of the candidate's block that follows a change to it: what is slow until warm-up has ended is part of what the
// change costs.
void Tuning::account_warm_up(bool warmup, double wall_ms, bool block_done) {
  if (!to_candidate_) return;
  if (warmup) to_candidate_->warm_up_ms.push_back(wall_ms);
  if (!block_done) return;
  ToCandidate change = *std::exchange(to_candidate_, std::nullopt);
  const double usual_ms = median(interleaving_->second().back());
  double excess_ms = 0;
  for (const double ms : change.warm_up_ms) excess_ms += ms - usual_ms;
  change.phases.warm_up_ms = std::max(0.0, excess_ms);
  change.ms += change.phases.warm_up_ms;
  take_change_to_candidate(change);
}

RaceRules Tuning::race_rules() const {
  return {interleaving_->blocks(), state_.job.trials.minimum_gain, state_.trials.back().switch_ms,
          state_.remaining_steps()};
}

// After each pair of blocks.
void Tuning::judge_race() {
  const Race race = look(interleaving_->first(), interleaving_->second(), state_.noise, race_rules());
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
  set_trial(TrialState::kMeasured);
  // A plan that was given up in its first block is known by that alone.
  const Blocks whole = interleaving_->whole_second();
  observe(trial.plan, whole.empty() ? trial.measured : summarize(whole, state_.noise));
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
  add_convergence(trial.id);
  roll_back();
}

void Tuning::fail_trial(const Reason& reason, const std::string& message, bool blame_candidate) {
  Trial& trial = state_.trials.back();
  trial.state = TrialState::kFailed;
  trial.reason = reason;
  trial.message = message;
  out_.decide("end trial " + std::to_string(trial.id), reason.text() + ": " + message);
  if (const auto peaks = peak_bytes_.find(trial.plan.hash);
      peaks != peak_bytes_.end() && reason == FailureReason::kOutOfMemory) {
    trial.peak_bytes = *std::max_element(peaks->second.begin(), peaks->second.end());
  }
  interleaving_.reset();
  out_.changed = true;
  out_.note("trial", "trial " + std::to_string(trial.id) + " failed (" + reason.text() + "): " + message);
  add_convergence(trial.id);
  if (blame_candidate) rule_out(trial.plan.hash, reason);
}

// For this job and later ones of its name. What hung may have waited for a link that was down: that counts until costs
// change, and in this job alone.
void Tuning::rule_out(const std::string& plan_hash, const Reason& reason) {
  const bool may_be_a_nodes = reason == FailureReason::kHang || reason == FailureReason::kCrash;
  if (may_be_a_nodes) blamed_ = Blamed{plan_hash, now_.monotonic};
  if (reason == FailureReason::kHang) return state_.hung_hashes.push_back(plan_hash);
  state_.failed_hashes.push_back(plan_hash);
  out_.act(RememberFailure{plan_hash, reason});
}

// Ranks whose peers' node dies crash or hang long before the node has been silent for so long that it is lost.
void Tuning::take_back_blame(const std::string& node) {
  if (!blamed_ || now_.monotonic - blamed_->at > kNodeFallsSilent) return;
  const std::string hash = std::exchange(blamed_, std::nullopt)->plan_hash;
  std::erase(state_.failed_hashes, hash);
  std::erase(state_.hung_hashes, hash);
  const auto failed = std::find_if(state_.trials.rbegin(), state_.trials.rend(),
                                   [&](const Trial& one) { return one.plan.hash == hash; });
  if (failed == state_.trials.rend() || failed->state != TrialState::kFailed) return;
  failed->reason = FailureReason::kAgentLost;
  changed_trials_.push_back(*failed);
  out_.note("trial", "plan " + hash + " may be tried again: node " + node + " was lost when it failed");
}

// Whether to try the plan was asked, and what the question was about has changed: the job goes on as in training.
void Tuning::withdraw_question(const std::string& why) {
  fail_trial(FailureReason::kWithdrawn, "approval is asked for no longer: " + why, false);
  state_.conclusion = "trial " + std::to_string(state_.trials.back().id) + " was withdrawn: " + why;
  state_.tuned_wall_ns = now_.wall.count();
  enter(Phase::kTraining);
}

}  // namespace trimtab::coordinator
