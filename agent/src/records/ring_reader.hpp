#pragma once

// The consumer's end of one process's record ring (schema/record.hpp). The memory belongs to the training process,
// which may be wrong, hostile or dead: every index, length and turn is checked, everything is copied before it is used,
// and nothing there can make a read leave the mapping, wait, or grow memory. Single-threaded.

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "records/range_name.hpp"
#include "schema/record.hpp"

namespace trimtab::agent {

// One record, with its texts. `name` and `domain` are valid UTF-8 without control characters and live as long as the
// reader.
struct RangeRecord {
  std::string_view name;    // "(unnamed)" when the producer had no room for it
  std::string_view domain;  // empty for the default domain
  RangeName range = {};     // of a range in the job's own domain
  std::int64_t payload = 0;
  std::uint64_t begin_ns = 0;  // CLOCK_REALTIME; of NCCL's kinds the GPU's, until RankRings has aligned them
  std::uint64_t end_ns = 0;    // not before begin_ns
  std::uint32_t thread = 0;
  std::uint16_t kind = record::kRange;  // kRange, kMark or kThreadName
  std::uint16_t flags = 0;              // record::Flags
  std::uint16_t depth = 0;
  std::uint32_t domain_value = 0;         // the slot's `domain` where it is no name (record::Kind says so)
  std::array<std::uint16_t, 7> detail{};  // by kind (record::RecordSlot)

  std::uint64_t uncertainty_ns = 0;  // of NCCL's kinds, once aligned: so much earlier or later it may have been

  [[nodiscard]] std::int64_t duration_ns() const { return static_cast<std::int64_t>(end_ns - begin_ns); }
};

// What happened since the last drain; for the first drain the producers' counts are those since the ring began.
struct RingDrain {
  std::uint64_t records = 0;        // handed to the sink
  std::uint64_t skipped = 0;        // claimed by a producer that died, or did not publish within stuck_after
  std::uint64_t malformed = 0;      // nonsense in a slot, or an end before its beginning (the clock was set back)
  std::uint64_t dropped = 0;        // by the producers: the ring was full
  std::uint64_t names_dropped = 0;  // by the producers: the name table was full
  std::uint64_t untracked = 0;      // by the producers: nested too deep, or too many ranges open at once
  bool broken = false;              // the ring's counters are absurd: nothing more will come, give the ring up. Its
                                    // producers' counts of this drain are left out
  bool more = false;                // stopped at its limit or its time
};

// Of a process's collectors, as its ring's header has them; zeros where CUDA never began.
struct CollectorFacts {
  std::uint32_t detail = 0;      // record::Detail
  std::uint8_t cupti_state = 0;  // record::CuptiReason
  double budget = 0;             // share of the wall time that collecting may cost
  double cost_seconds = 0;       // of the job's time, so far
  std::uint64_t lost_stamps = 0;
  std::uint64_t cupti_dropped = 0;
  bool operator==(const CollectorFacts&) const = default;
};

// Of the largest ring that is laid out as libtrimtab-inject.so lays out its own.
inline constexpr Bytes kMostRingBytes = Bytes{72} << 20;

struct RingReaderOptions {
  Nanoseconds stuck_after = std::chrono::seconds(2);
  Bytes most_bytes = kMostRingBytes;  // of the memfd: a larger one is refused before any of its pages is touched
};

class RingReader final {
 public:
  // Batches of at most this many records; the span is valid only during the call.
  static constexpr std::size_t kBatch = 256;
  using Sink = std::function<void(std::span<const RangeRecord>)>;

  // Takes over and closes `descriptor`, in every case. Refuses what is not a sealed memfd with a ring of this version
  // in it, and one with holes: reading those would take memory here that the process has not taken. A ring whose reader
  // was lost is read on from where that one stopped. `clock` must outlive the reader.
  [[nodiscard]] static Result<std::unique_ptr<RingReader>> attach(int descriptor, const Clock& clock,
                                                                  RingReaderOptions options = {});
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // What the reader before this one had read and not kept() when it was lost.
  [[nodiscard]] std::uint64_t lost_before() const { return lost_before_; }
  // All that drain() has handed over is stored: none of it is lost with this reader.
  void kept() { header_->kept.store(tail_ + 1, std::memory_order_release); }

  // Hands over what has been published, oldest first. Looks at no more than `max_records` slots, rounded up to a batch,
  // whatever is in them, and begins no batch after `until` (of the clock's monotonic time).
  RingDrain drain(std::size_t max_records, const Sink& sink, Nanoseconds until = Nanoseconds::max());

  // The process or its connection is gone: nobody will publish what is still claimed.
  void producer_ended() { producer_ended_ = true; }
  // True once the process has ended in an orderly way and marked its ring.
  [[nodiscard]] bool closed() const { return header_->closed.load(std::memory_order_acquire) != 0; }
  // Nothing is left, and nothing will come.
  [[nodiscard]] bool finished() const;

  // CUDA began in the process and CUPTI cannot say what it does: no kernel will come, and ranges measure the host only.
  [[nodiscard]] bool device_unseen() const;
  // CUDA began in the process.
  [[nodiscard]] bool device_begun() const;
  // What its collectors say of themselves; unchecked.
  [[nodiscard]] CollectorFacts collector() const;
  // Every kernel until then (CLOCK_REALTIME), whatever it costs; 0 = as the budget allows.
  void ask_full_detail(std::uint64_t until_ns);

  // As the process says; unchecked.
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint32_t slot_capacity() const { return slot_capacity_; }
  // What the ring can take of memory at most, whatever its process does to it.
  [[nodiscard]] Bytes bytes() const;

 private:
  class Mapping;
  enum class Look { kReady, kPending, kMalformed };
  // Slots below `head` were claimed no later than `since`.
  struct Pending {
    Nanoseconds since;
    std::uint64_t head;
  };

  RingReader(std::unique_ptr<Mapping> mapping, const Clock& clock, RingReaderOptions options);
  Status place();
  Status find_tail();

  [[nodiscard]] std::size_t fill_batch(std::uint64_t head, RingDrain& drain);
  [[nodiscard]] Look look(const record::RecordSlot& slot) const;
  [[nodiscard]] bool give_up(std::uint64_t head);
  [[nodiscard]] bool decode(const record::RecordSlot& slot, RangeRecord& record);
  struct Text {
    std::string text = {};
    RangeName range = {};  // what it stands for as a range's name
  };
  // nullptr for an index that no table has.
  [[nodiscard]] const Text* text(std::uint32_t index);
  void read_counters(RingDrain& drain);
  [[nodiscard]] std::uint64_t most_since(Nanoseconds begin) const;
  [[nodiscard]] record::RecordSlot& slot_at(std::uint64_t ticket) { return slots_[ticket & (slot_capacity_ - 1)]; }

  // Constant after construction.
  std::unique_ptr<Mapping> mapping_;
  const Clock& clock_;
  RingReaderOptions options_;
  record::RingHeader* header_ = nullptr;
  record::NameEntry* names_ = nullptr;
  record::RecordSlot* slots_ = nullptr;
  std::uint32_t name_capacity_ = 0;  // ours, like slot_capacity_: checked once, not read again
  std::uint32_t slot_capacity_ = 0;
  pid_t pid_ = 0;

  std::uint64_t tail_ = 0;  // ours; the header's copy is for the next reader
  std::uint64_t dropped_ = 0;
  std::uint64_t names_dropped_ = 0;
  std::uint64_t untracked_ = 0;
  Nanoseconds counted_{0};  // monotonic, so from the machine's start: when the producers' counts were read last
  std::uint64_t lost_before_ = 0;
  std::optional<Pending> pending_;
  bool producer_ended_ = false;
  bool broken_ = false;
  const Text unnamed_{"(unnamed)"};
  const Text default_domain_;
  std::vector<std::optional<Text>> texts_;  // by index, each read once
  std::array<RangeRecord, kBatch> batch_;
};

}  // namespace trimtab::agent
