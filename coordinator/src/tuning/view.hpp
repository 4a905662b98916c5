#pragma once

// What the machine's parts may read of it. Only what they own can they change.

#include <set>
#include <string>

#include "tuning/launch/running_plan.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

struct View {
  const TuningState& state;
  const Moment& now;
  const RunningPlan& running;
  const std::set<std::string>& lost;  // nodes that are away
  const KillSwitches& thrown;

  // Why the ranks stay on the incumbent, whatever is found: frozen, the site's policy, or a node's kill switch. Empty =
  // they need not.
  [[nodiscard]] std::string held_by() const;
  [[nodiscard]] bool held() const { return !held_by().empty(); }
  // Nothing is under way: the job trains on, or trains while somebody is asked whether to try a plan.
  [[nodiscard]] bool is_calm() const;
  // Nobody forbids that the plan is changed for what is found.
  [[nodiscard]] bool may_retune() const;
};

}  // namespace trimtab::coordinator
