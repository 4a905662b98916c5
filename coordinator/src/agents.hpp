#pragma once

// The agents' side of the port: frames in, answers out. Event loop's thread only.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "collective_intake.hpp"
#include "job_table.hpp"
#include "services.hpp"

namespace trimtab::wire {
class CollectiveStamps;
class CommandDone;
class CostBatch;
class Heartbeat;
class Hello;
class RankActivity;
class RankEvent;
class ToAgent;
}  // namespace trimtab::wire

namespace trimtab::coordinator {

// What of the server the agents' side needs: a seam, so that tests can stand in for it.
struct PeerPort {
  std::function<bool(std::uint64_t peer, std::string frame)> send;
  std::function<void(std::uint64_t peer)> close;
  // Why this peer cannot be that node; unset: it can.
  std::function<Status(std::uint64_t peer, const std::string& node)> check_node = {};
};

class Agents {
 public:
  Agents(Services& services, JobTable& jobs, PeerPort port)
      : services_(services), jobs_(jobs), port_(std::move(port)), collectives_(services) {}

  void message(std::uint64_t peer, std::string_view frame);
  void closed(std::uint64_t peer, const std::string& reason);
  // Nodes that have been silent for too long are lost to their jobs and traces; what ranks of jobs that are over waited
  // for is forgotten.
  void tick();
  // The last costs of collectives are stored.
  void stop();
  bool send(const std::string& node, const wire::ToAgent& message);

 private:
  void hello(std::uint64_t peer, const wire::Hello& hello);
  void end_strays(const wire::Hello& hello);
  void heartbeat(std::uint64_t peer, const Member& member, const wire::Heartbeat& heartbeat);
  void kill_switch(const Member& member);
  void cost_batch(std::uint64_t peer, const Member& member, const wire::CostBatch& batch);
  void command_done(const wire::CommandDone& done);
  void rank_event(const wire::RankEvent& event);
  void timeline(const wire::RankEvent& event);
  void collective_stamps(const Member& member, const wire::CollectiveStamps& stamps);
  void disconnect(const std::string& node);
  void refuse(std::uint64_t peer, const std::string& reason);
  void reply(std::uint64_t peer, const wire::ToAgent& message);

  Services& services_;
  JobTable& jobs_;
  PeerPort port_;
  CollectiveIntake collectives_;
};

}  // namespace trimtab::coordinator
