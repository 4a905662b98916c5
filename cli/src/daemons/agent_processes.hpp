#pragma once

// The agents that run on this machine, whoever started them: what /proc says of each process whose program is called
// trimtab-agent. Blocking; only reads.

#include <sys/types.h>

#include <string>
#include <vector>

namespace trimtab::cli {

struct AgentProcess {
  std::string proc;  // its directory in /proc
  uid_t owner = 0;
  std::string state;  // its state directory, in its own words: relative to where it runs, or absolute in its own root
                      // directory; empty = it cannot be known to this user
};

// In the order of their numbers. `root` is the directory that /proc is in. Who hides processes from this user (hidepid)
// hides agents, too.
[[nodiscard]] std::vector<AgentProcess> agent_processes(const std::string& root);

// A path that reaches from here what `path` is to the process. Only its own user and root may follow it. Pure.
[[nodiscard]] std::string seen_from_here(const AgentProcess& process, const std::string& path);

}  // namespace trimtab::cli
