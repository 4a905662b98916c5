#include "tuning/view.hpp"

namespace trimtab::coordinator {

std::string View::held_by() const {
  if (state.frozen) return "frozen";
  for (const NodeShare& share : state.nodes) {
    if (kill_switches.contains(share.node)) return "the kill switch of node " + share.node + " is thrown";
  }
  return "";
}

bool View::is_calm() const {
  const bool trains_on = state.phase == Phase::kTraining && state.doing == Doing::kNothing;
  const bool asks = state.phase == Phase::kTrials && state.doing == Doing::kAwaitingApproval;
  return lost.empty() && (trains_on || asks);
}

bool View::may_retune() const {
  return !held() && state.job.mode != JobMode::kObserve && !state.stop_asked;
}

}  // namespace trimtab::coordinator
