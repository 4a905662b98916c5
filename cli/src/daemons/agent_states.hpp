#pragma once

// Where the agents of this machine keep their state. What must reach all of them, such as the kill switch, goes by
// this: a list that lacks an agent is worse than one with a directory too many. Blocking; only reads.

#include <sys/types.h>

#include <string>
#include <vector>

namespace trimtab::cli {

struct AgentState {
  std::string directory;         // as it is reached from here; of an agent that hides it: what is known of it
  uid_t owner = 0;               // of the directory, or of the agent's process
  std::string unreachable = {};  // why nothing can be done there; empty = it is there
};

// Of the agents that `trimtab up` with this state directory started, now or once.
[[nodiscard]] std::vector<AgentState> up_agent_states(const std::string& up_state);

// Those; the ones of services and of Slurm's prolog, below /var/lib/trimtab; and that of every agent that runs, also
// where it has a root directory or mounts of its own (a container, a job's private /tmp). Each once. `up_state`: empty
// = none is known. `root` is where /var/lib and /proc are looked for.
[[nodiscard]] std::vector<AgentState> agent_states(const std::string& up_state, const std::string& root = "/");

// "ana", or "user 1000" where nobody is called so.
[[nodiscard]] std::string user_name(uid_t user);

}  // namespace trimtab::cli
