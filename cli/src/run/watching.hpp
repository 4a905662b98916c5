#pragma once

// What a watched command needs around it: an agent on this node, the coordinator behind it, and a name for the job.
// Those that are up or named, else embedded ones that this run shares with others and whose last user ends them.
// Blocking, with deadlines: a command never waits long for its watchers.

#include "jobs/session.hpp"
#include "run/launch_facts.hpp"

namespace trimtab::cli {

struct WatchRequest {
  SessionFlags session;
  std::string socket;  // of an agent, where a person names it
  std::string shared;  // folder of several nodes, where a person names it
  std::string beside;  // directory beside which the folder of several nodes stands by default
  std::string job;     // a valid name
  Variables variables;
};

struct Watch {
  std::string socket;   // of this node's agent
  Address coordinator;  // that keeps the card
  std::string job;      // by which it knows the job
  std::string state;    // where this run counts as a user; empty = nowhere
  std::string step;     // of the launch that it is part of
  std::string note;     // what a person should know; empty = nothing
  bool leads = true;    // of all processes of this launch, it writes and prints the card
};

// One or several runs of a launch begin so on each node. An error says why the command is not watched; then nothing is
// left that waits for it.
[[nodiscard]] Result<Watch> begin_watch(const WatchRequest& request, const Clock& clock);

// The command has begun: daemons stay for it should this run be killed.
void tell_command(const Watch& watch, pid_t command);

// This run needs them no longer. Waits a little for the end of daemons that nobody else needs.
void end_watch(const Watch& watch, const Clock& clock);

// The socket of an agent that this user may reach, of those that a node has; an error names where was looked.
[[nodiscard]] Result<std::string> agent_socket_here(const std::string& named, const std::string& state_directory,
                                                    const Variables& variables);

}  // namespace trimtab::cli
