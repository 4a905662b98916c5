#pragma once

// Which state directory holds the daemons of a run on this node, and who starts them: one of this user on this machine,
// or one of the node where several nodes watch a job together.

#include "daemons/process.hpp"
#include "run/watching.hpp"

namespace trimtab::cli {

struct NodeState {
  std::string state;
  std::string note;  // what a person should know
  // Of several nodes:
  std::string folder;  // empty = this node is alone
  std::string node;
  bool first = true;
  bool by_scheduler = false;  // it has said which node is first, and numbers the ranks

  [[nodiscard]] bool several() const { return !folder.empty(); }
  // Whether its rank 0, or its only process, speaks for the launch.
  [[nodiscard]] bool leads() const { return first || by_scheduler; }
  // What to look at where the daemons do not come.
  [[nodiscard]] std::string waits_for() const;
  // REQUIRES: several().
  [[nodiscard]] Result<std::string> told_job() const;
};
[[nodiscard]] Result<NodeState> node_state(const WatchRequest& request, const LaunchFacts& facts);

// The background process that brings daemons up there (`trimtab keep`).
[[nodiscard]] Result<ProcessIdentity> start_keeper(const NodeState& node, const std::string& job);
[[nodiscard]] Status record_keeper(const std::string& state_directory, const ProcessIdentity& keeper);
// pid 0: there was none.
[[nodiscard]] ProcessIdentity recorded_keeper(const std::string& state_directory);

}  // namespace trimtab::cli
