// What holds between two events, whatever they were. A machine that breaks one of these would act on a state that means
// nothing: the process ends instead, and the next one goes on from the last state that was stored.

#include <algorithm>

#include "base/check.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// What is counted, and what refers to something else.
void check_plain_values(const TuningState& state, const std::set<std::string>& lost) {
  TRIMTAB_ASSERT(state.committed_epoch <= state.last_epoch, "what is committed has been proposed");
  TRIMTAB_ASSERT(state.launch_epoch <= state.committed_epoch, "a launch's first epoch is a committed one");
  TRIMTAB_ASSERT(state.profiling.requests.empty() ||
                     std::cmp_less_equal(state.profiling.request_next, state.profiling.requests.size()),
                 "the next benchmark is one of those that are asked for");
  const auto ascend = [](const Trial& a, const Trial& b) { return a.id >= b.id; };
  TRIMTAB_ASSERT(std::ranges::adjacent_find(state.trials, ascend) == state.trials.end(), "trials are numbered");
  const auto open = std::ranges::find_if(state.trials, [](const Trial& one) { return !has_ended(one.state); });
  TRIMTAB_ASSERT(open == state.trials.end() || std::next(open) == state.trials.end(), "only the last trial goes on");
  for (const std::string& node : lost) {
    TRIMTAB_ASSERT(std::ranges::find(state.nodes, node, &NodeShare::node) != state.nodes.end(),
                   "a node that is away is one of the job's");
  }
  TRIMTAB_ASSERT(!state.has_grown() || (!state.elastic.resizes.empty() && state.elastic.resizes.back().outcome.empty()),
                 "what the job may go back to is of a growth that is not settled");
}

void check_phase(const TuningState& state) {
  const Phase phase = state.phase;
  TRIMTAB_ASSERT(!state.has_trial() || phase == Phase::kTrials, "a trial ends with the phase of trials at the latest");
  TRIMTAB_ASSERT(!steers_ranks(phase) || !state.incumbent.empty() || state.has_no_plan(),
                 "ranks are steered by an incumbent plan");
  TRIMTAB_ASSERT(!state.watched || (state.outstanding.empty() && state.doing == Doing::kNothing),
                 "a watched job is asked for nothing");
  for (const OutstandingCommand& one : state.outstanding) {
    TRIMTAB_ASSERT(one.kind != CommandKind::kDescribe || phase == Phase::kDescribing, "the model is described once");
    TRIMTAB_ASSERT(one.kind != CommandKind::kBenchmark || phase == Phase::kProfiling, "benchmarks run in profiling");
  }
}

void check_doing(const TuningState& state) {
  const Phase phase = state.phase;
  switch (state.doing) {
    case Doing::kSearching:
      TRIMTAB_ASSERT(phase == Phase::kSearching || phase == Phase::kTrials, "what is searched for is tried");
      return;
    case Doing::kAwaitingApproval:
      TRIMTAB_ASSERT(state.has_trial() && state.job.mode == JobMode::kApprove, "a trial awaits its approval");
      return;
    case Doing::kChangingPlan:
      TRIMTAB_ASSERT(phase == Phase::kTrials || phase == Phase::kComparing, "plans are changed to be measured in turn");
      return;
    case Doing::kMeasuring:
      TRIMTAB_ASSERT(steers_ranks(phase) && phase != Phase::kTraining, "a job that trains on is not measured");
      return;
    case Doing::kProbing:
      TRIMTAB_ASSERT((state.hardware.has_open_drift() || state.hardware.measures_first) &&
                         (phase == Phase::kTraining || phase == Phase::kTrials),
                     "a drift that is not explained yet is probed for, or what it has made doubtful is measured");
      return;
    case Doing::kHalted:
      TRIMTAB_ASSERT(state.has_ranks() && !state.failure.empty(), "a halted job had ranks, and says why it has none");
      return;
    case Doing::kNothing:
    case Doing::kRollingBack:
    case Doing::kKilling:
    case Doing::kLaunching:
    case Doing::kWaitingForNodes:
      return;
  }
}

}  // namespace

void CurrentActivity::check(const TuningState& state, bool nodes_are_away) const {
  const Doing word = word_;
  const bool measures = steers_ranks(state.phase) && state.phase != Phase::kTraining;
  if (const auto* const change = get<PlanChange>()) {
    TRIMTAB_ASSERT(!state.is_restarted(), "live changes are of jobs that take them");
    TRIMTAB_ASSERT(word == (change->then ? Doing::kChangingPlan : Doing::kRollingBack), "a change is what is done");
    TRIMTAB_ASSERT(!change->then || measures, "plans are measured in turn by phases that measure");
  } else if (get<Restart>() != nullptr) {
    TRIMTAB_ASSERT(state.is_restarted(), "restarts are of jobs that are restarted");
    TRIMTAB_ASSERT(word == Doing::kKilling || word == Doing::kLaunching, "a restart ends ranks and launches them");
  } else if (get<Measuring>() != nullptr) {
    TRIMTAB_ASSERT(word == Doing::kMeasuring && measures, "plans are measured in turn by phases that measure");
  } else if (get<Probing>() != nullptr) {
    TRIMTAB_ASSERT(word == Doing::kProbing, "what is probed for is what is done");
  } else if (!nodes_are_away) {
    // After a coordinator's restart the word may be of what is not under way any more, until every node is back.
    const bool owns = word == Doing::kChangingPlan || word == Doing::kRollingBack || word == Doing::kMeasuring ||
                      word == Doing::kProbing;
    TRIMTAB_ASSERT(!owns, "what is done is under way");
  }
}

void Tuning::check_invariants() const {
  const TuningState& state = m_.state;
  check_plain_values(state, m_.lost);
  if (is_final(state.phase)) return;
  check_phase(state);
  // The word of `doing` may be of what is not under way any more.
  if (m_.lost.empty()) check_doing(state);
  m_.activity.check(state, !m_.lost.empty());
}

}  // namespace trimtab::coordinator
