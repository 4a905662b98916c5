// What trials, the final comparison and growth cost the job, and when that is enough.

#include <algorithm>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

// Where the job's time goes to that tuning takes now; null = nowhere.
double* Tuning::excess_ms() {
  if (state_.phase == Phase::kComparing || leaves_comparison_) return &state_.comparison_excess_ms;
  return state_.phase == Phase::kTrials && !state_.trials.empty() ? &state_.trials.back().excess_ms : nullptr;
}

// A step of a trial or of the comparison, warm-up included: what it took beyond the incumbent's. The incumbent's own
// measured steps are the job's, and cost nothing. Steps that are thrown away cost all that they take. True when the
// step has cost something.
bool Tuning::account(const JobStep& step) {
  const bool comparing = state_.phase == Phase::kComparing;
  double* const excess = excess_ms();
  if (excess == nullptr || (!comparing && !state_.has_trial())) return false;
  const bool incumbents = interleaving_->second_is_next() == comparing;
  if (incumbents && !interleaving_->warming() && !state_.runs_trial()) return false;
  const double beyond_ms = step.wall_ms - (state_.runs_trial() ? 0 : state_.incumbent_measured.mean_ms);
  *excess += beyond_ms;
  if (incumbents && !comparing && interleaving_->warming()) learn_change(last_change_ms_ + std::max(0.0, beyond_ms));
  return beyond_ms > 0;
}

// A step outside of the blocks: of another plan while the next one is agreed on, or of the incumbent, just returned to.
void Tuning::account_between(const JobStep& step) {
  const std::string* const plan = state_.hash_of(step.epoch);
  double* const excess = excess_ms();
  if (state_.runs_trial() || excess == nullptr || plan == nullptr || !believable(step.wall_ms)) return;
  const bool incumbents = *plan == state_.incumbent.hash;
  if (incumbents && way_back_steps_ <= 0) return;
  if (incumbents) --way_back_steps_;
  *excess += step.wall_ms - state_.incumbent_measured.mean_ms;
}

// What a change of plan has cost up to now, the incumbent's warm-up after it included.
void Tuning::learn_change(double ms) {
  last_change_ms_ = ms;
  state_.dearest_change_ms = std::max(state_.dearest_change_ms, ms);
}

double Tuning::change_cost_ms() const {
  return std::max(state_.dearest_change_ms, state_.is_restarted() ? state_.launch_ms : 0.0);
}

// What the steps that are left will take each if the trial ends as it is hoped: its plan may be adopted, and what was
// spent is then a share of a shorter job.
double Tuning::pace_ms() const {
  const double incumbent_ms = state_.incumbent_measured.mean_ms;
  if (!state_.has_trial()) return incumbent_ms;
  const bool seen = interleaving_ && !interleaving_->second().empty() && !interleaving_->second().front().empty();
  const double candidate_ms =
      seen ? summarize(interleaving_->second(), state_.noise).mean_ms : state_.trials.back().predicted.mean_ms;
  return candidate_ms > 0 ? std::min(incumbent_ms, candidate_ms) : incumbent_ms;
}

// What tuning may yet cost, the way back to the incumbent set aside, with a step's time for its warm-up.
double Tuning::overhead_left_ms() const {
  const bool is_away = state_.runs_trial() || !running_.is(state_.incumbent);
  const double back_ms = is_away ? change_cost_ms() + state_.incumbent_measured.mean_ms : 0;
  return state_.allowed_overhead_ms(pace_ms()) - state_.overhead_ms() - back_ms;
}

// Another pair of blocks at what this trial's have cost, with the way back after it.
bool Tuning::enough_overhead_for_pair() const {
  const auto pairs = static_cast<double>(std::max<std::size_t>(interleaving_->first().size(), 1));
  const double pair_ms = state_.trials.back().overhead_ms() / pairs + change_cost_ms();
  return state_.overhead_ms() + pair_ms <= state_.allowed_overhead_ms(pace_ms());
}

// The least that a trial of the plan costs: one pair of blocks and the way back.
double Tuning::least_trial_ms(const Candidate& candidate) const {
  const TrialSettings& settings = state_.job.trials;
  const double steps = settings.warmup_steps + settings.measure_steps;
  const double incumbent_ms = state_.incumbent_measured.mean_ms;
  const double candidate_ms = candidate.predicted.mean_ms;
  if (state_.is_restarted()) return 3 * change_cost_ms() + steps * (incumbent_ms + candidate_ms);
  return 2 * change_cost_ms() + steps * std::max(0.0, candidate_ms - incumbent_ms);
}

// The next step might be beyond what tuning may cost: what is under way ends here, and the incumbent stays.
void Tuning::stop_for_overhead() {
  if (state_.phase == Phase::kComparing) return give_up_comparison();
  const Blocks& second = interleaving_->second();
  if (second.empty() || second.front().empty()) {
    fail_trial(FailureReason::kOverhead, "trials.overhead was used up before a step of its plan was measured", false);
    return roll_back();
  }
  conclude_trial({RaceState::kUnsure, compare(interleaving_->first(), second, state_.noise)}, FailureReason::kOverhead);
}

// Ranks stood still for nodes that joined, for the comparison and the way back from it, or for a trial that goes on or
// has just ended.
void Tuning::account_change(double ms) {
  if (grows_) {
    state_.growth_ms += ms;
  } else if (state_.phase == Phase::kComparing || leaves_comparison_) {
    state_.comparison_changes_ms += ms;
  } else if (state_.phase == Phase::kTrials && !state_.trials.empty()) {
    state_.trials.back().changes_ms += ms;
  }
}

// A launch goes on from a snapshot: its first steps were trained before.
void Tuning::account_lost_steps(std::int64_t first) {
  const std::int64_t lost = state_.step - first + 1;
  if (lost <= 0 || !(trial_lost_steps_ || grows_ || state_.phase == Phase::kComparing)) return;
  const double usual_ms = state_.incumbent_measured.mean_ms;
  account_change(static_cast<double>(lost) * (usual_ms > 0 ? usual_ms : state_.step_ms));
}

// What the step adds to the job's time, and those before it that nobody has told of.
void Tuning::account_training(const JobStep& step) {
  const double usual_ms = state_.incumbent_measured.mean_ms;
  const auto untold = static_cast<double>(std::max<std::int64_t>(step.step - state_.step - 1, 0));
  state_.trained_ms += (believable(step.wall_ms) ? step.wall_ms : usual_ms) + untold * usual_ms;
}

// The ranks run again. Their first step is the job's own, or was counted among the lost ones.
void Tuning::account_idle_time() {
  if (!idle_since_) return;
  const double own_ms = state_.runs_trial() ? 0 : std::min(state_.step_ms, state_.incumbent_measured.mean_ms);
  account_change(std::max(0.0, milliseconds(now_.monotonic - *idle_since_) - own_ms));
  idle_since_.reset();
}

}  // namespace trimtab::coordinator
