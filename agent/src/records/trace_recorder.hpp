#pragma once

// Traces on demand: what the coordinator asked for, from the rings of a job's ranks, sent in chunks. Bounded: what the
// link does not take in time is dropped and counted. A broken link ends all traces. Loop thread only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "net/local_server.hpp"
#include "ranks/rank_identity.hpp"
#include "records/ring_trace.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

class TraceRecorder final {
 public:
  static constexpr std::size_t kMostTraces = 4;
  static constexpr std::size_t kMostQueuedBytes = std::size_t{32} << 20;

  // A ring that a trace could be taken of.
  struct Ring {
    net::LocalPeerId peer = 0;
    RankIdentity rank;
    pid_t pid = 0;
    bool on_device = false;
    std::vector<RangeRecord> names;  // of its threads and devices
  };
  struct Surroundings {
    std::function<bool(const wire::FromAgent&)> send;
    std::function<std::vector<Ring>(const std::string& job)> rings;
    // Asks a ring's process for every kernel until then; 0 = no longer.
    std::function<void(net::LocalPeerId, std::uint64_t until_ns)> full_detail;
    const Clock& clock;
    std::string node;
  };
  explicit TraceRecorder(Surroundings surroundings) : surroundings_(std::move(surroundings)) {}

  void start(const wire::TraceStart& asked);
  void stop(std::uint64_t id);
  void link_closed();

  // From the rings: these do nothing while there is no trace of the ring.
  void records(net::LocalPeerId peer, std::span<const RangeRecord> records);
  void dropped(net::LocalPeerId peer, std::uint64_t count);
  // A step that the job does not name ended then; it may have been long ago.
  void step_found(net::LocalPeerId peer, std::uint64_t end_ns);
  void ring_ended(net::LocalPeerId peer);
  // Ends what is over and sends what waits; to be called after each drain.
  void tick();
  [[nodiscard]] std::size_t running() const { return traces_.size(); }

 private:
  struct Trace {
    std::map<net::LocalPeerId, RingTrace> rings;
    std::vector<wire::TracedRank> done;
    std::deque<wire::FromAgent> queue;
    std::size_t queued_bytes = 0;
    std::map<std::uint32_t, std::uint64_t> dropped;  // records by rank that the queue had no room for
    std::uint64_t detail_until_ns = 0;               // what its rings' processes are asked for
    Nanoseconds deadline{0};                         // monotonic: the wall clock, which its records have, may be set
    bool ended = false;                              // its end is the queue's last message
  };
  void put(Trace& trace, std::uint64_t id, wire::TraceChunk chunk);
  // As the traces that the ring has need it.
  void ask_detail(net::LocalPeerId peer);
  void end_ring(Trace& trace, std::uint64_t id, std::map<net::LocalPeerId, RingTrace>::iterator ring);
  void end(Trace& trace, std::uint64_t id);
  bool send_waiting(Trace& trace);
  [[nodiscard]] std::uint64_t now() const { return static_cast<std::uint64_t>(surroundings_.clock.wall().count()); }

  Surroundings surroundings_;
  std::map<std::uint64_t, Trace> traces_;
};

}  // namespace trimtab::agent
