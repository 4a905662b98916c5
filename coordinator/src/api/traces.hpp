#pragma once

// Traces on demand. Agents send what their ranks record in chunks, whoever asked fetches them one by one; a chunk is
// kept until the next one is asked for. Bounded in number, bytes and time: a trace that nobody fetches is stopped. Loop
// thread only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agents/wire_messages.hpp"
#include "base/clock.hpp"
#include "base/clock_difference.hpp"
#include "schema/api/trace.hpp"

namespace trimtab::coordinator {

struct TraceRequest {
  double seconds = 0;  // one of the two is above 0
  std::uint32_t steps = 0;
};

class Traces {
 public:
  static constexpr std::size_t kMost = 4;
  static constexpr std::size_t kMostOfTenant = 3;  // who traces all that may be traced leaves one for the others
  static constexpr std::size_t kMostBytes = std::size_t{128} << 20;  // of chunks that wait, per trace
  static constexpr Nanoseconds kAbandonedAfter = std::chrono::seconds(60);

  Traces(const Clock& clock, SendToNode send) : clock_(clock), send_(std::move(send)) {}

  // How far nodes' clocks are ahead of ours, where that is known.
  using NodeOffsets = std::map<std::string, ClockDifference::Offset>;
  // Starts one on these nodes; its number. The error is kNo when this job or too many others are being traced, of all
  // tenants or of this one. Its document tells of `clocks`, for whoever puts the nodes' records beside each other.
  struct Whose {
    std::string job;
    std::string tenant;
  };
  [[nodiscard]] Result<std::uint64_t> start(const Whose& whose, const std::vector<std::string>& nodes,
                                            const TraceRequest& request, const NodeOffsets& clocks);

  // Both are of the node that sent them. False: it says that it is another, or takes no part in the trace; nothing
  // changes. What comes of a trace that is over is no offence.
  [[nodiscard]] bool chunk(const std::string& node, const wire::TraceChunk& chunk, std::string frame);
  [[nodiscard]] bool ended(const std::string& node, const wire::TraceEnd& end);
  void node_gone(const std::string& node);
  void tick();

  // Whose it is; nothing for an unknown number.
  [[nodiscard]] std::optional<std::string> job_of(std::uint64_t id) const;
  // Whoever asked for it is still there; else it is abandoned after a while.
  void wanted(std::uint64_t id);
  // {"trace", "job", "state": "running" | "done", "nodes": [{"node", "clock_ahead_ns", "clock_unsure_ns", ...}],
  // "chunks": how many came}; nothing for an unknown number.
  [[nodiscard]] std::optional<std::string> document(std::uint64_t id) const;
  // The chunk of this number (from 0), a serialized wire.FromAgent; empty when it is the next to come. Those before it
  // go. Nothing for an unknown trace; bad input, and nothing goes, for a number beyond the next.
  [[nodiscard]] Result<std::optional<std::string>> fetch(std::uint64_t id, std::uint64_t number);
  // Whoever asked has all that it wants.
  bool finish(std::uint64_t id);

 private:
  struct Trace {
    std::string tenant;
    api::Trace document;              // its nodes in order of name; `dropped` for want of room here
    std::set<std::string> recording;  // nodes whose end has not come: one that was lost may be back
    std::deque<std::string> chunks;
    std::uint64_t first = 0;  // the number of the first chunk that is kept
    std::size_t bytes = 0;
    Nanoseconds touched{0};
  };
  [[nodiscard]] Status check_room(const Whose& whose) const;
  void stop(const Trace& trace);

  const Clock& clock_;
  SendToNode send_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Trace> traces_;
};

}  // namespace trimtab::coordinator
