#pragma once

// The kill switches of this machine's agents (docs/protocols.md, "Authority"): files in their state directories, which
// agents and ranks look at by themselves. Blocking.

#include <optional>

#include "base/result.hpp"
#include "daemons/agent_states.hpp"

namespace trimtab::cli {

enum class KillSwitchOrder { kShow, kThrow, kRelease };

// One switch after an order.
struct KillSwitch {
  std::string file;
  std::optional<bool> thrown;  // nothing where the order did not reach it
  std::string why = {};        // then
  bool left_alone = false;     // it is another user's, whom the caller has no power over
};

// Does it to all that can be reached, whatever becomes of the others. `caller` is the user who gives the order.
[[nodiscard]] std::vector<KillSwitch> order_kill_switches(KillSwitchOrder order, const std::vector<AgentState>& states,
                                                          uid_t caller);

// An error where one that was not to be left alone has failed, or where none was reached; it names them.
[[nodiscard]] Status order_outcome(const std::vector<KillSwitch>& kill_switches);

}  // namespace trimtab::cli
