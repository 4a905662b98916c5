#pragma once

// An agent that speaks the wire over a real WebSocket and pretends the rest: commands succeed, ranks train by timer,
// plans switch when they are committed. And a coordinator in the same loop, in a directory of its own.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../net/loopback.hpp"
#include "../simulated_rank.hpp"
#include "coordinator/daemon.hpp"
#include "net/event_loop.hpp"
#include "net/link.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using net::run_until;

class FakeAgent {
 public:
  FakeAgent(net::EventLoop& loop, std::uint16_t port, std::string node, std::string instance,
            net::LinkOptions options = {});

  void start() { link_->start(); }
  void stop() { link_->stop(); }
  bool send(const wire::FromAgent& message) { return link_->send(message.SerializeAsString()); }
  void send_hello();
  void send_batch(std::uint64_t number, const std::string& key_json, int value, const std::string& job = "");

  bool hello_on_open = true;
  std::string tenant;  // as its hello has it
  std::uint32_t protocol_version = 1;
  std::function<double(const std::string& plan_json)> step_ms = [](const std::string&) { return 10.0; };
  // Costs that a benchmark "measures", as key documents.
  std::function<void(const wire::Benchmark&)> on_benchmark;
  std::string model_json = "{}";

  std::set<std::uint64_t> acknowledged;
  std::map<std::uint64_t, std::string> refused_batches;  // with the reason
  std::vector<std::string> refusals;
  bool kill_switch = false;  // what heartbeats say
  int welcomes = 0;
  int closes = 0;
  std::vector<std::string> commands;  // kinds, in order
  std::set<std::uint64_t> command_ids;

 private:
  void message(const wire::ToAgent& to);
  void command(const wire::Command& command);
  void launch(const wire::Launch& launch);
  void train_step();
  void tell(std::uint32_t rank, const std::function<void(wire::RankEvent&)>& fill);
  void end_ranks();

  net::EventLoop& loop_;
  std::string node_;
  std::string instance_;
  std::unique_ptr<net::Link> link_;
  net::EventLoop::Timer step_timer_;
  net::EventLoop::Timer heartbeat_;
  std::string job_;
  std::string variant_;
  std::vector<std::uint32_t> ranks_;
  std::uint64_t launch_ = 0;
  trimtab::test::SimulatedRank runs_;  // all its ranks
  std::int64_t step_ = 0;
  std::int64_t last_step_ = 0;
};

[[nodiscard]] std::string fingerprint_json();

}  // namespace trimtab::coordinator
