#pragma once

// Traces on demand: what the coordinator asked for, from the rings of a job's ranks, sent in chunks. Bounded: what the
// link does not take in time is dropped and counted. A broken link ends all traces. Loop thread only.

#include <deque>

#include "net/local_server.hpp"
#include "ranks/rank_identity.hpp"
#include "records/ring_reader.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

// The part of a trace that one ring gives: chooses the records of the time that was asked for, and packs them into
// chunks of a bounded size. Pure. Single-threaded.
struct RingTraceOrder {
  std::uint64_t from_ns = 0;    // CLOCK_REALTIME
  std::uint64_t length_ns = 0;  // 0 = by steps
  std::uint32_t steps = 0;
  std::uint64_t patience_ns = 0;  // by steps: how long a step is waited for
  std::uint64_t linger_ns = 0;    // how much later a record may come than what it tells of
  std::uint64_t max_bytes = 0;    // of all chunks
};

class RingTrace final {
 public:
  static constexpr int kChunkRecords = 8192;

  // `chunk` has what every chunk of this ring begins with.
  RingTrace(const RingTraceOrder& order, wire::TraceChunk chunk) : order_(order), empty_(std::move(chunk)) {
    empty_.set_base_ns(order.from_ns);
    reset();
  }

  // A chunk when this record has filled one.
  [[nodiscard]] std::optional<wire::TraceChunk> add(const RangeRecord& record);
  // The job has no `step` ranges, but its steps were found: one ended at `end_ns`, and is told of only `now_ns`, when
  // its records have gone by. So recording begins with the first that is told, and steps count that began after that.
  void step_found(std::uint64_t end_ns, std::uint64_t now_ns);
  // Records were lost in the ring.
  void dropped(std::uint64_t count) { ring_dropped_ += count; }
  // Nothing more is expected by now.
  [[nodiscard]] bool over(std::uint64_t now_ns) const;
  void stop(const std::string& remark) { stopped_ = remark; }
  // The last chunk, where something is left, and the account.
  [[nodiscard]] std::optional<wire::TraceChunk> last() { return chunk_.records_size() > 0 ? full() : std::nullopt; }
  [[nodiscard]] wire::TracedRank account(std::uint64_t now_ns) const;

 private:
  [[nodiscard]] bool wanted(const RangeRecord& record) const;
  void step_ended(std::uint64_t end_ns);
  void reset();
  [[nodiscard]] std::uint32_t number_of(std::string_view text);
  [[nodiscard]] std::optional<wire::TraceChunk> full();

  RingTraceOrder order_;
  wire::TraceChunk empty_;
  wire::TraceChunk chunk_;
  std::map<std::string_view, std::uint32_t> numbers_;  // of this chunk's names
  std::optional<std::uint64_t> begin_ns_;              // by steps: the end of the first one seen, or when one was found
  std::optional<std::uint64_t> end_ns_;
  std::uint32_t steps_ = 0;
  bool in_step_ = false;  // of those that are found: one began since begin_ns_
  bool ranges_ = false;   // the job says where its steps are
  std::uint64_t bytes_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t ring_dropped_ = 0;
  bool truncated_ = false;
  std::optional<std::string> stopped_;
};

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
