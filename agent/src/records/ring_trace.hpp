#pragma once

// The part of a trace that one ring gives: chooses the records of the time that was asked for, and packs them into
// chunks of a bounded size. Pure. Single-threaded.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "records/ring_reader.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

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
  [[nodiscard]] std::optional<wire::TraceChunk> last();
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

}  // namespace trimtab::agent
