#pragma once

// The node daemon: looks after the ranks of jobs on this node, folds what they record into costs, keeps them until the
// coordinator has them, and does what the coordinator commands. All of it on one loop's thread.

#include "agent/configuration.hpp"
#include "net/event_loop.hpp"

namespace trimtab::agent {

class Agent final {
 public:
  // Opens everything, takes up the ranks of an earlier agent on the same state, begins to connect. Nothing of it is
  // left behind when it fails: a second agent on the state or the socket, a read-only or full place, a port in use.
  // `loop` must outlive the agent; `program_directory` is where the executable is.
  [[nodiscard]] static Result<std::unique_ptr<Agent>> start(net::EventLoop& loop, const Configuration& configuration,
                                                            const std::string& program_directory);
  ~Agent();

  // One line for people: the coordinator and whether it is there, ranks that run.
  [[nodiscard]] std::string status() const;

  // Reads the certificates again; those that cannot be used are logged and change nothing. They are also looked at
  // every few seconds, and a token's file at each connection.
  void reload();

  // Stores what was measured, ends commands that run, and the ranks where the configuration says so; then calls `done`.
  void stop(std::function<void()> done);

 private:
  struct Implementation;
  explicit Agent(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace trimtab::agent
