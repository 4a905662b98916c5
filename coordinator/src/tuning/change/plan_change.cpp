// Live plan changes: what the machine does with an agreement's outcomes.

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// A rollback that ranks refuse or ignore is tried again once; then the ranks are started anew.
constexpr std::int32_t kRollbackAttempts = 2;

Reason reason_of(const std::string& told) {
  const Reason reason = Reason::parsed(told);
  return reason == FailureReason::kMemory ? FailureReason::kOutOfMemory : reason;
}

// What says nothing about the plan itself: nobody answered, the disk was full, another change came first.
bool says_nothing(const Reason& reason) {
  return reason == FailureReason::kAgreementTimeout || reason == FailureReason::kSnapshot ||
         reason == FailureReason::kSuperseded || reason == FailureReason::kKillSwitch;
}

void forget_gain_of(std::int32_t trial, TuningState& state) {
  state.compared = state.retuned_compared = false;
  const auto ended =
      std::ranges::find_if(state.hardware.drifts, [trial](const Drift& one) { return one.trials_before >= trial; });
  if (ended != state.hardware.drifts.end()) ended->gained_before = {};
}

}  // namespace

void Tuning::begin_change(const PlanText& plan, ChangePurpose purpose) {
  clock_check_.interrupt();
  if (state_.is_restarted()) return begin_restart(plan, purpose);
  const std::uint64_t epoch = state_.begin_epoch(plan.hash);
  state_.doing = purpose == ChangePurpose::kRollback ? Doing::kRollingBack : Doing::kChangingPlan;
  change_.emplace(PlanChange{Agreement(epoch, state_.world_size(), deadline()), plan, purpose});
  out_.changed = true;
  out_.act(ProposePlan{epoch, plan.json, plan.hash == state_.incumbent.hash});
}

// After an agent's absence: what it may have missed. Ranks ignore what they have heard already.
void Tuning::resend_change() {
  if (!change_) return;
  const Agreement& agreement = change_->agreement;
  out_.act(ProposePlan{agreement.epoch(), change_->plan.json, change_->plan.hash == state_.incumbent.hash});
  if (agreement.committed()) out_.act(CommitPlan{agreement.epoch(), agreement.committed_step()});
}

void Tuning::cancel_change() {
  if (!change_) return;
  out_.act(CancelPlan{change_->agreement.epoch()});
  change_.reset();
}

void Tuning::news(std::int32_t rank, const RankAcknowledged& ack) {
  if (!change_) return;
  Agreement& agreement = change_->agreement;
  if (agreement.acknowledge(rank, ack.epoch, ack.step) != Agreement::Outcome::kAllAcknowledged) return;
  const std::int64_t step = agreement.commit_step(state_.step);
  agreement.commit(step, deadline());
  state_.committed_epoch = agreement.epoch();
  if (state_.has_trial() && interleaving_ && change_->purpose == ChangePurpose::kBlock)
    trials_.set_state(TrialState::kStaged);
  out_.changed = true;
  out_.act(CommitPlan{agreement.epoch(), step});
}

void Tuning::news(std::int32_t rank, const RankRefused& refused) {
  if (!change_ || change_->agreement.refuse(refused.epoch) != Agreement::Outcome::kRefused) return;
  const Reason told = reason_of(refused.reason);
  const bool is_known = refused.reason == "memory" || told == FailureReason::kKillSwitch;
  cancel_change();
  change_failed(is_known ? told : FailureReason::kRefused,
                "rank " + std::to_string(rank) + " refused the plan: " + refused.message);
}

void Tuning::news(std::int32_t rank, const RankActive& active) {
  running_.learn(rank, active.epoch);
  if (change_) {
    const auto outcome = change_->agreement.activate(rank, active.epoch, active.switch_time, active.phases);
    if (outcome == Agreement::Outcome::kAllActive) change_done();
  }
}

void Tuning::news(std::int32_t rank, const RankFailed& failed) {
  const std::string message = "rank " + std::to_string(rank) + ": " + failed.message;
  const Reason reason = reason_of(failed.reason);
  // Its ranks have no plan to go back to: the launch ends for it, and what it exits with would not say why.
  if (state_.is_restarted() && reason == FailureReason::kOutOfMemory) {
    if (state_.wants_no_ranks() || !state_.has_ranks()) return;  // another rank of the launch was first
    return crashed(FailureReason::kOutOfMemory, message);
  }
  if (change_ && change_->agreement.fail(failed.epoch) == Agreement::Outcome::kFailed) {
    // Some ranks may hold the commit still: take it back before anything else is proposed.
    cancel_change();
    running_.forget();
    return change_failed(reason, message);
  }
  // The plan was active and failed later, in one of its steps.
  const std::string* const plan = state_.hash_of(failed.epoch);
  if (plan == nullptr || running_.hash() != *plan) return;
  if (state_.has_trial() && *plan == state_.trials.back().plan.hash) {
    running_.forget();
    overhead_.blame_trial(true);  // where ranks go on from their last snapshot
    fail_trial(reason, message, !says_nothing(reason));
    roll_back();
  } else if (*plan == state_.incumbent.hash && steers_ranks(state_.phase)) {
    if (reason.kind() != FailureReason::kKillSwitch) {
      // An adopted plan that fails after all gives its place back to the one that it took it from; the job has left it.
      // Of a plan that was never adopted such news is late or says nothing: the ranks' next steps show what they run.
      return give_back_incumbent(reason, message) ? roll_back() : void();
    }
    // The ranks had not heard yet that it was adopted; as the incumbent they take it.
    if (state_.has_trial() && state_.doing != Doing::kAwaitingApproval)
      fail_trial(FailureReason::kKillSwitch, message, false);
    running_.forget();
    roll_back();
  }
}

// False when the incumbent was never adopted: there is no plan before it.
bool Tuning::give_back_incumbent(const Reason& reason, const std::string& message) {
  // Plans from before nodes were lost are for more devices than there are.
  const auto failed = std::find_if(state_.trials.rbegin(), state_.trials.rend(), [this](const Trial& one) {
    return one.state == TrialState::kAdopted && one.plan.hash == state_.incumbent.hash &&
           one.id > state_.trials_before_resize;
  });
  if (failed == state_.trials.rend()) return false;
  running_.forget();
  if (state_.has_trial()) fail_trial(FailureReason::kIncumbentFailed, message, false);
  trials_.fail_adopted(*failed, reason, message);
  forget_gain_of(failed->id, state_);
  Replaced before{state_.initial, state_.initial_predicted, state_.initial_measured};
  if (!state_.replaced.empty()) {
    before = std::move(state_.replaced.back());
    state_.replaced.pop_back();
  }
  hardware_.forget_steps();
  state_.incumbent = std::move(before.plan);
  state_.incumbent_predicted = before.predicted;
  state_.incumbent_measured = before.measured;
  out_.decide("leave the plan of trial " + std::to_string(failed->id) + " for the one before it",
              reason.text() + ": " + message);
  out_.note("warning", "the adopted plan of trial " + std::to_string(failed->id) + " failed (" + reason.text() +
                           ") and is left for the one before it: " + message);
  out_.changed = true;
  return true;
}

void Tuning::change_done() {
  const PlanChange change = std::move(*change_);
  change_.reset();
  running_.set(change.plan.hash);
  assembly_.clear();
  since_change_ = Settling(state_.job.trials.warmup_steps);
  out_.changed = true;
  if (state_.has_trial() && change.plan.hash == state_.trials.back().plan.hash) {
    const double switch_ms = milliseconds(change.agreement.switch_time());
    SwitchPhases phases = change.agreement.phases();
    if (phases.known()) phases.wait_ms = std::max(0.0, switch_ms - phases.sum_ms());
    trials_.changed_to_candidate(switch_ms, phases);
  }
  overhead_.add_change(milliseconds(change.agreement.switch_time()));
  if (state_.phase == Phase::kTrials) overhead_.learn_change(milliseconds(change.agreement.switch_time()));
  if (change.purpose == ChangePurpose::kRollback) {
    rollbacks_ = 0;
    overhead_.come_back(state_.job.trials.warmup_steps);
    out_.note("plan", "every rank runs the incumbent");
    return settled();
  }
  begin_block(true);
}

void Tuning::change_failed(const Reason& reason, const std::string& message) {
  change_.reset();
  out_.changed = true;
  out_.note("warning", message);
  if (state_.has_trial()) fail_trial(reason, message, !says_nothing(reason));
  interleaving_.reset();
  if (state_.phase == Phase::kComparing) out_.note("warning", "the final comparison is begun again");
  roll_back();
}

void Tuning::tick_change() {
  const Agreement& agreement = change_->agreement;
  if (!agreement.overdue(now_.monotonic)) return;
  const std::string missing = agreement.missing_ranks();
  // Some have switched and the others are silent: nothing that is proposed now could be agreed.
  if (agreement.committed() && agreement.anybody_active()) {
    return crashed(FailureReason::kHang, "rank " + missing + " did not become active on the plan in time");
  }
  const bool hang = now_.monotonic - moved_at_ > state_.job.trials.deadline;
  if (hang) return crashed(FailureReason::kHang, "no sign of life from any rank within the deadline");
  const std::string message = agreement.committed() ? "the commit took no effect in time; not active: rank " + missing
                                                    : "no acknowledgement in time from rank " + missing;
  cancel_change();
  change_failed(FailureReason::kAgreementTimeout, message);
}

// Brings the ranks to the incumbent, from wherever they are. Where another plan was committed since, the incumbent is
// proposed even when ranks run it: the commit may take effect yet (its cancellation may be late), and a higher epoch
// supersedes it.
void Tuning::roll_back() {
  cancel_change();
  restart_.reset();
  interleaving_.reset();
  if (state_.wants_no_ranks()) return;  // the next launch is the incumbent's
  const std::string* const committed = state_.hash_of(state_.committed_epoch);
  const bool nothing_pending = !state_.runs_trial() && committed != nullptr && *committed == state_.incumbent.hash;
  if (nothing_pending && running_.is(state_.incumbent)) return settled();
  if (++rollbacks_ > kRollbackAttempts) {
    rollbacks_ = 0;
    return relaunch(FailureReason::kRefused, "the ranks could not be brought back to the incumbent");
  }
  begin_change(state_.incumbent, ChangePurpose::kRollback);
}

// Every rank runs the incumbent and nothing is under way: the phase goes on.
void Tuning::settled() {
  if (!state_.hardware.other_hardware.empty() && steers_ranks(state_.phase)) return measure_anew();
  state_.doing = Doing::kNothing;
  if (state_.phase == Phase::kTraining) overhead_.leave_comparison(false);
  out_.changed = true;
  switch (state_.phase) {
    case Phase::kMeasuring:
      return begin_measuring();
    case Phase::kTrials:
      if (!state_.has_trial()) return go_on_trying();
      TRIMTAB_ASSERT(state_.job.mode == JobMode::kApprove, "a trial that nobody approves is never left waiting");
      state_.doing = Doing::kAwaitingApproval;
      return;
    case Phase::kComparing:
      return begin_comparison();
    case Phase::kTraining:
      return train_on();
    default:
      return;
  }
}

}  // namespace trimtab::coordinator
