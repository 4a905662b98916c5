#pragma once

// A coordinator for one test, and the agent's program started beside it.

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/server.hpp"
#include "schema/job.hpp"
#include "temporary_directory.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

class FakeCoordinator final {
 public:
  FakeCoordinator();
  ~FakeCoordinator();  // ends the agent and what it launched

  // The agent's program; `changes` add to or replace its usual options.
  void start_agent(const std::map<std::string, std::string>& changes = {});
  void kill_agent(int signal);
  [[nodiscard]] pid_t agent() const { return agent_; }
  // Waits for the agent's end; its exit code, or minus the signal.
  int wait_for_agent();

  // Runs the loop until there is such a message; fails the test with `what` when it does not come.
  void wait(const std::string& what, const std::function<bool()>& done);
  const wire::FromAgent& wait_for(const std::string& what, const std::function<bool(const wire::FromAgent&)>& wanted);
  const wire::CommandDone& wait_for_done(std::uint64_t id);
  // The agent has said hello `times` times.
  void wait_for_hello(std::size_t times = 1);

  // Breaks the link off, and welcomes nobody until it comes back.
  void leave();
  void come_back() { away_ = false; }

  void send(const wire::ToAgent& message);
  void send_bytes(std::string frame);  // whatever they are
  void describe(std::uint64_t id, const Job& job);
  void benchmark(std::uint64_t id, const Job& job, const std::vector<std::uint32_t>& ranks, double deadline_s = 20);
  void launch(std::uint64_t id, const Job& job, const std::vector<std::uint32_t>& ranks, std::uint64_t number);
  void kill(std::uint64_t id, const std::string& job, std::uint64_t launch);

  // A job of fake_rank.py with two ranks.
  [[nodiscard]] Job job() const;

  std::string tenant;   // of jobs that are launched
  std::string program;  // of the agents that are started; empty = this release's

  // From the agent, in order.
  std::vector<wire::FromAgent> messages;
  bool acknowledge_batches = true;
  std::uint32_t protocol_version = 1;
  TemporaryDirectory directory;

  [[nodiscard]] std::size_t count(const std::function<bool(const wire::FromAgent&)>& wanted) const;
  [[nodiscard]] const wire::Hello& last_hello() const;
  void forget() { messages.clear(); }
  // Of the ranks that the agent said it runs.
  [[nodiscard]] static bool is_alive(pid_t pid);

 private:
  void received(net::PeerId peer, std::string_view frame);

  net::EventLoop loop_;
  std::unique_ptr<net::Server> server_;
  std::optional<net::PeerId> peer_;
  std::size_t hellos_ = 0;
  bool away_ = false;
  pid_t agent_ = -1;
};

// For wait_for.
[[nodiscard]] std::function<bool(const wire::FromAgent&)> rank_event(wire::RankEvent::BodyCase kind,
                                                                     std::uint32_t rank);

}  // namespace trimtab::agent
