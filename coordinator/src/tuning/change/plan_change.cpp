// Live plan changes: what the machine does with an agreement's outcomes.

#include <algorithm>
#include <utility>

#include "tuning/change/plan_changes.hpp"

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

}  // namespace

void PlanChanges::begin(const PlanText& plan, std::optional<Measuring> then) {
  if (then) then->clock.interrupt();
  if (m_.state.is_restarted()) return begin_restart(plan, std::move(then));
  const std::uint64_t epoch = m_.state.begin_epoch(plan.hash);
  const Doing word = then ? Doing::kChangingPlan : Doing::kRollingBack;
  Agreement agreement(epoch, m_.state.world_size(), m_.deadline());
  m_.activity.become(word, PlanChange{std::move(agreement), plan, std::move(then)});
  m_.out.changed = true;
  m_.out.act(ProposePlan{epoch, plan.json, plan.hash == m_.state.incumbent.hash});
}

// Ranks ignore what they have heard already.
void PlanChanges::resend() {
  const auto* const change = m_.activity.get<PlanChange>();
  if (change == nullptr) return;
  const Agreement& agreement = change->agreement;
  m_.out.act(ProposePlan{agreement.epoch(), change->plan.json, change->plan.hash == m_.state.incumbent.hash});
  if (agreement.committed()) m_.out.act(CommitPlan{agreement.epoch(), agreement.committed_step()});
}

Next PlanChanges::handle(std::int32_t rank, const RankAcknowledged& acknowledged) {
  auto* const change = m_.activity.get<PlanChange>();
  if (change == nullptr) return {};
  Agreement& agreement = change->agreement;
  const auto outcome = agreement.acknowledge(rank, acknowledged.epoch, acknowledged.step);
  if (outcome != Agreement::Outcome::kAllAcknowledged) return {};
  const std::int64_t step = agreement.commit_step(m_.state.step);
  agreement.commit(step, m_.deadline());
  m_.state.committed_epoch = agreement.epoch();
  if (m_.state.has_trial() && change->then) m_.trials.set_state(TrialState::kStaged);
  m_.out.changed = true;
  m_.out.act(CommitPlan{agreement.epoch(), step});
  return {};
}

Next PlanChanges::handle(std::int32_t rank, const RankRefused& refused) {
  auto* const change = m_.activity.get<PlanChange>();
  if (change == nullptr || change->agreement.refuse(refused.epoch) != Agreement::Outcome::kRefused) return {};
  const Reason told = reason_of(refused.reason);
  const bool is_known = refused.reason == "memory" || told == FailureReason::kKillSwitch;
  return failed(is_known ? told : FailureReason::kRefused,
                "rank " + std::to_string(rank) + " refused the plan: " + refused.message);
}

Next PlanChanges::handle(std::int32_t rank, const RankActive& active) {
  m_.running.learn(rank, active.epoch);
  auto* const change = m_.activity.get<PlanChange>();
  if (change == nullptr) return {};
  const auto outcome = change->agreement.activate(rank, active.epoch, active.switch_time, active.phases);
  return outcome == Agreement::Outcome::kAllActive ? done() : Next{};
}

Next PlanChanges::handle(std::int32_t rank, const RankFailed& failed) {
  const std::string message = "rank " + std::to_string(rank) + ": " + failed.message;
  const Reason reason = reason_of(failed.reason);
  // Its ranks have no plan to go back to: the launch ends for it, and what it exits with would not say why.
  if (m_.state.is_restarted() && reason == FailureReason::kOutOfMemory) {
    const bool is_first = !m_.state.wants_no_ranks() && m_.state.has_ranks();
    return is_first ? Next{Next::kCrashed, message, FailureReason::kOutOfMemory} : Next{};
  }
  auto* const change = m_.activity.get<PlanChange>();
  if (change != nullptr && change->agreement.fail(failed.epoch) == Agreement::Outcome::kFailed) {
    m_.running.forget();
    return this->failed(reason, message);
  }
  return active_plan_failed(failed, reason, message);
}

// In one of its steps, later.
Next PlanChanges::active_plan_failed(const RankFailed& failed, const Reason& reason, const std::string& message) {
  TuningState& state = m_.state;
  const std::string* const plan = state.hash_of(failed.epoch);
  if (plan == nullptr || m_.running.hash() != *plan) return {};
  if (state.has_trial() && *plan == state.trials.back().plan.hash) {
    m_.running.forget();
    m_.overhead.blame_trial(true);  // where ranks go on from their last snapshot
    m_.fail_trial(reason, message, !says_nothing(reason));
    return roll_back();
  }
  if (*plan != state.incumbent.hash || !steers_ranks(state.phase)) return {};
  if (reason.kind() != FailureReason::kKillSwitch) {
    // An adopted plan that fails after all gives its place back to the one that it took it from; the job has left it.
    // Of a plan that was never adopted such news is late or says nothing: the ranks' next steps show what they run.
    return m_.give_back_incumbent(reason, message) ? roll_back() : Next{};
  }
  // The ranks had not heard yet that it was adopted; as the incumbent they take it.
  if (state.has_trial() && state.doing != Doing::kAwaitingApproval)
    m_.fail_trial(FailureReason::kKillSwitch, message, false);
  m_.running.forget();
  return roll_back();
}

Next PlanChanges::done() {
  PlanChange change = *m_.activity.take<PlanChange>();
  m_.running.set(change.plan.hash);
  m_.forget_steps(false);
  m_.out.changed = true;
  const double ms = milliseconds(change.agreement.switch_time());
  if (m_.state.has_trial() && change.plan.hash == m_.state.trials.back().plan.hash) {
    ChangePhases phases = change.agreement.phases();
    if (phases.known()) phases.wait_ms = std::max(0.0, ms - phases.sum_ms());
    m_.trials.changed_to_candidate(ms, phases);
  }
  m_.overhead.add_change(ms);
  if (m_.state.phase == Phase::kTrials) m_.overhead.learn_change(ms);
  if (!change.then) {
    rollbacks_ = 0;
    m_.overhead.come_back(m_.state.job.trials.warmup_steps);
    m_.out.note("plan", "every rank runs the incumbent");
    return {Next::kSettle};
  }
  m_.activity.become(Doing::kMeasuring, *std::move(change.then));
  m_.begin_block(true);
  return {};
}

// Some ranks may hold the commit still: it is taken back before anything else is proposed.
Next PlanChanges::failed(const Reason& reason, const std::string& message) {
  m_.activity.cancel(m_.out);
  m_.out.changed = true;
  m_.out.note("warning", message);
  if (m_.state.has_trial()) m_.fail_trial(reason, message, !says_nothing(reason));
  if (m_.state.phase == Phase::kComparing) m_.out.note("warning", "the final comparison is begun again");
  return roll_back();
}

Next PlanChanges::tick() {
  const Agreement& agreement = m_.activity.get<PlanChange>()->agreement;
  if (!agreement.overdue(m_.now.monotonic)) return {};
  const std::string missing = agreement.missing_ranks();
  // Some have switched and the others are silent: nothing that is proposed now could be agreed.
  if (agreement.committed() && agreement.anybody_active()) {
    return {Next::kCrashed, "rank " + missing + " did not become active on the plan in time", FailureReason::kHang};
  }
  if (!launch_.live_within(m_.state.job.trials.deadline)) {
    return {Next::kCrashed, "no sign of life from any rank within the deadline", FailureReason::kHang};
  }
  return failed(FailureReason::kAgreementTimeout, agreement.committed()
                                                      ? "the commit took no effect in time; not active: rank " + missing
                                                      : "no acknowledgement in time from rank " + missing);
}

// Brings the ranks to the incumbent, from wherever they are. Where another plan was committed since, the incumbent is
// proposed even when ranks run it: the commit may take effect yet (its cancellation may be late), and a higher epoch
// supersedes it.
Next PlanChanges::roll_back() {
  m_.activity.cancel(m_.out);
  if (m_.state.wants_no_ranks()) return {};  // the next launch is the incumbent's
  const std::string* const committed = m_.state.hash_of(m_.state.committed_epoch);
  const bool nothing_pending = !m_.state.runs_trial() && committed != nullptr && *committed == m_.state.incumbent.hash;
  if (nothing_pending && m_.running.is(m_.state.incumbent)) return {Next::kSettle};
  if (++rollbacks_ > kRollbackAttempts) {
    rollbacks_ = 0;
    return launch_.relaunch(FailureReason::kRefused, "the ranks could not be brought back to the incumbent");
  }
  begin(m_.state.incumbent, std::nullopt);
  return {};
}

}  // namespace trimtab::coordinator
