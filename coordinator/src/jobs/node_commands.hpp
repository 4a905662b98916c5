#pragma once

// A job's commands and messages on their way to its nodes: what goes now, what later, and what never. All that waits
// for a node shares one queue (net::Server::has_room), and one that is full would end the node's link. Event loop's
// thread only.

#include "needs.hpp"
#include "tuning/action.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

class NodeCommands {
 public:
  // `fail` hears of a command that no message holds. The others outlive it.
  NodeCommands(std::int64_t run, const TuningState& state, const JobNeeds& services,
               std::function<void(CommandFinished)> fail)
      : run_(run), state_(state), services_(services), fail_(std::move(fail)) {}

  // A command, which has an id and an answer, or a message to every node of the job. REQUIRES: nodes hear of it.
  void send(const Action& action);
  // What waits for its id or its node. What the job waits for no more is left.
  void send_late();
  // What waits for the node of rank 0, where that is known by now.
  void send_to_meet();
  [[nodiscard]] bool wait() const { return !meeting_later_.empty() || !numbered_later_.empty(); }

 private:
  struct Command {
    Action action;
    std::string tag;
    std::string node;
    std::size_t bytes = 0;  // of its message, once that is known
  };
  template <typename OnNode>
  void send_command(const OnNode& action);
  void number_later(Command command, const std::string& why);
  [[nodiscard]] std::size_t largest_message() const;
  [[nodiscard]] bool has_room(const std::string& node, std::size_t bytes) const;
  void send_or_keep(Command command, const wire::ToAgent& to);
  [[nodiscard]] bool tell(const std::string& node, const wire::ToAgent& to) const;
  [[nodiscard]] std::optional<std::string> meeting_place(const std::string& name) const;

  const std::int64_t run_;
  const TuningState& state_;
  const JobNeeds& services_;
  std::function<void(CommandFinished)> fail_;
  std::vector<Action> meeting_later_;    // launches and benchmarks, until the node of rank 0 is known
  std::string unnumbered_;               // the last of them that was told of
  std::vector<Command> numbered_later_;  // until the disk has room for their ids
  std::vector<Command> unsent_;          // until less waits for their nodes
};

}  // namespace trimtab::coordinator
