#pragma once

// An agent's conversation with the coordinator without the rest of the agent: its connection is the agent's own
// (net::Link, with reconnecting), and so are the rules of its spool (agent/src/costs/cost_store.hpp): so many batches
// in flight, all that is not acknowledged again after a new connection, or when no answer comes for long. The spool's
// disk is left out: a batch can be made again from its number.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "cost_load.hpp"
#include "net/link.hpp"
#include "schema/statistics.hpp"

namespace trimtab::load {

// Of all agents of a run.
struct LoadCounts {
  std::uint64_t made = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t refused = 0;
  std::uint64_t sent_again = 0;
  std::uint64_t welcomes = 0;
  std::uint64_t closes = 0;
  std::string last_reason;  // of a close or refusal
  Statistics latency_ns;    // from when a batch was due to when its acknowledgement came
};

class LoadAgent {
 public:
  // When a batch of this agent was due, by its number.
  using Due = std::function<Nanoseconds(std::uint64_t number)>;
  LoadAgent(net::EventLoop& loop, const Clock& clock, net::LinkOptions options, std::uint32_t index, CostLoad& load,
            LoadCounts& counts, Due due);

  void start() { link_.start(); }
  void stop() { link_.stop(); }
  // One more batch is due.
  void make();
  void look_after();
  [[nodiscard]] bool idle() const { return acknowledged_below_ == made_; }
  [[nodiscard]] bool welcome() const { return welcome_; }

 private:
  void hello();
  void received(std::string_view frame);
  void welcomed(std::uint32_t heartbeat_ms);
  void beat();
  void pump();
  bool send(std::uint64_t number);
  void acknowledged(std::uint64_t number);
  [[nodiscard]] bool is_acknowledged(std::uint64_t number) const;

  net::EventLoop& loop_;
  const Clock& clock_;
  std::uint32_t index_;
  CostLoad& load_;
  LoadCounts& counts_;
  Due due_;
  bool welcome_ = false;
  net::EventLoop::Timer heartbeat_;
  std::uint64_t made_ = 0;                // batches 1 ... made_
  std::uint64_t first_sent_ = 0;          // all up to here were sent once
  std::uint64_t last_sent_ = 0;           // over this connection
  std::uint64_t acknowledged_below_ = 0;  // all of 1 ... this
  std::set<std::uint64_t> acknowledged_;  // beyond it
  std::set<std::uint64_t> in_flight_;
  Nanoseconds last_answer_{0};
  net::Link link_;  // last: its handlers use the others
};

}  // namespace trimtab::load
