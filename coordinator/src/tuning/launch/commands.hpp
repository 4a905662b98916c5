#pragma once

// What nodes are told to do, and what of it they have not answered yet. A command is asked for until it is answered,
// also by the next coordinator, and a node runs it once.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuning/launch/command_tag.hpp"
#include "tuning/outcome.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

class Commands {
 public:
  Commands(std::vector<OutstandingCommand>& outstanding, const View& view, Outcome& out)
      : outstanding_(outstanding), view_(view), out_(out) {}

  // The job prints its model, on its first node.
  void describe();
  // On every node: the next request, the present launch.
  void benchmark();
  void launch();
  // On every node. Launches that have not begun are not waited for any more.
  void kill(KillReach reach);
  void kill_on(const std::string& node, KillReach reach);
  // A node that the job went on without: what still runs there belongs to a launch that is over, and what it would save
  // is older than what the job has saved since. A launch of a restarted job may still copy its checkpoint: nobody tells
  // of its ranks.
  void kill_strays(const NodeBack& back);
  // A node is back, and may have missed what it was told.
  void send_again(const std::string& node);
  // With the kill switch thrown and nobody there to say so, the agent has left a trial for the job itself.
  void take_brought_back(const NodeBack& back);

  // Of the tag; nothing = asked by nobody any more.
  [[nodiscard]] std::optional<CommandKind> finished(const std::string& tag);
  void forget(CommandKind kind);
  void forget_of(const std::set<std::string>& nodes);

 private:
  void ask(OutstandingCommand command);
  void send(const OutstandingCommand& command);
  void send_launch(const OutstandingCommand& command);
  void send_kill(const OutstandingCommand& command);
  void kill_brought_back(const std::string& node);
  [[nodiscard]] std::string benchmark_name() const;

  std::vector<OutstandingCommand>& outstanding_;
  const View& view_;
  Outcome& out_;
  std::map<std::string, std::uint64_t> brought_back_;  // by node: the launch by which its agent alone runs the job
};

}  // namespace trimtab::coordinator
