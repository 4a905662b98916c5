#pragma once

// Whose work a kernel was: joins kernels with the ranges that launched them. A kLaunch record names a correlation id
// and the innermost range that was open; the kernel carries the correlation id; the range is published when it ends.
// The three come in any order. A range that is no operator's pass counts for the pass around it, on the same thread.
//
// A pass is given out when kernels have been seen that ended `settle_ns` after it, all its launches have found their
// kernels, and none of its time is lost; otherwise it is dropped and counted, never given with a part of its kernels.
// One launch may have many kernels (a graph).
//
// Memory is constant. Launches and kernels are found by the low bits of their ids, which the producers count upwards; a
// newer one takes an older one's place, and what was still waiting there is counted as evicted. Ranges and passes that
// find no room are refused, the earlier ones stay (RangeBlocks): of more passes than can wait, a sample of stretches is
// given out, and the others are counted as crowded. Pure. Single-threaded.

#include <deque>
#include <unordered_map>

#include "kernels/time_spans.hpp"
#include "records/ring_reader.hpp"

namespace trimtab::agent {

// What kernels have done for each range, by the range's id, while it is not known or not settled which pass they count
// for. The producer counts ids upwards. They are held in blocks of consecutive ids, each whole or not at all: a block
// is given room when the first of its ids is seen, if there is some; if not, all of it is refused for good, however
// late something of it comes. So of more ranges than there is room for a sample stays complete, and none is held in
// part.
//
// A block's room is given to a newer one when nothing of it has ended for `settle_ns`. Memory is constant. Pure.
// Single-threaded.

// Of one range, or of a pass and all the ranges in it.
struct KernelWork {
  std::uint64_t device_ns = 0;
  std::uint64_t kernels = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t first_ns = 0;  // when the earliest began; 0 = there is none
  std::uint32_t launches = 0;
  std::uint32_t matched = 0;  // launches that have a kernel
  void merge(const KernelWork& other);
};

class RangeBlocks final {
 public:
  struct Range {
    std::uint32_t pass = 0;  // the id of the pass that it counts for; 0 = not known yet
    KernelWork work;         // until then
  };

  // `block_ranges` must be a power of two.
  RangeBlocks(std::size_t blocks, std::uint32_t block_ranges, std::uint64_t settle_ns)
      : most_(blocks), block_ranges_(block_ranges), settle_ns_(settle_ns) {}

  // nullptr where its block is not held. `newest_ns`: kernels that ended then have been seen. Valid until the next
  // call.
  [[nodiscard]] Range* at(std::uint32_t id, std::uint64_t newest_ns);
  // Something of that range ended then: its block is in use.
  void ended(std::uint32_t id, std::uint64_t end_ns);
  // Times begin anew: every block may make room.
  void forget_times() {
    for (Block& block : blocks_) block.last_ns = 0;
  }

 private:
  // An id that lies so many blocks behind the newest one is of a producer that began to count anew.
  static constexpr std::int64_t kCountedAnew = 4096;

  struct Block {
    std::uint32_t number = 0;
    std::uint64_t last_ns = 0;
    std::vector<Range> ranges;
  };
  [[nodiscard]] Block* find(std::uint32_t number);
  [[nodiscard]] Block* admit(std::uint32_t number, std::uint64_t newest_ns);
  [[nodiscard]] bool decided(std::uint32_t number) const;
  [[nodiscard]] Block* room(std::uint64_t newest_ns);

  std::size_t most_;
  std::uint32_t block_ranges_;
  std::uint64_t settle_ns_;
  std::vector<Block> blocks_;
  std::size_t latest_ = 0;    // the index that find() found last
  std::uint32_t newest_ = 0;  // the highest number that was decided on
  bool any_ = false;
};

struct AttributionOptions {
  std::uint64_t settle_ns = 6'500'000'000;
  std::size_t launches = std::size_t{1} << 18;  // powers of two
  std::size_t kernels = std::size_t{1} << 14;   // that came before their launch
  std::size_t blocks = 32;                      // of ranges
  std::uint32_t block_ranges = 4096;            // a power of two, too
  std::size_t passes = std::size_t{1} << 16;
};

struct AttributionCounters {
  std::uint64_t attributed = 0;  // kernels whose range was known
  std::uint64_t outside = 0;     // kernels launched in no range, or in one that is not held (any more)
  std::uint64_t passes = 0;      // given out
  std::uint64_t without_kernels = 0;
  std::uint64_t incomplete = 0;  // passes with a launch whose kernel never came
  std::uint64_t windowed = 0;    // passes that ran while not all was recorded
  std::uint64_t crowded = 0;     // passes for which there was no room
  std::uint64_t evicted = 0;     // launches, kernels and ranges that made room unjoined
};

// One occurrence of an operator's pass.
struct PassTime {
  RangeRecord range;            // as it was published; its own times are the host's
  std::uint64_t device_ns = 0;  // the sum of its kernels' times
  std::uint64_t kernels = 0;
  std::uint64_t begin_ns = 0;  // of the first of them, and the end of the last
  std::uint64_t end_ns = 0;
};

class KernelAttribution final {
 public:
  // `lost` must outlive it.
  explicit KernelAttribution(const LostWindows& lost, AttributionOptions options = {});

  void add_range(const RangeRecord& record);
  // `begin_ns`, `end_ns`: of the call; 0 = not known. The same launch may be told of twice.
  void add_launch(std::uint32_t correlation, std::uint32_t range, std::uint64_t begin_ns = 0, std::uint64_t end_ns = 0);
  // A call that was taken for a launch puts nothing on a device.
  void no_launch(std::uint32_t correlation);
  void add_kernel(std::uint32_t correlation, std::uint64_t begin_ns, std::uint64_t end_ns);

  // Gives what is settled to `sink`, in the order in which the ranges ended; `all` = at the end, settled or not.
  template <typename Sink>
  void take(const Sink& sink, bool all = false) {
    while (!order_.empty() && (all || passes_.at(order_.front()).settled(newest_ns_, options_.settle_ns))) {
      const Pass pass = passes_.extract(order_.front()).mapped();
      order_.pop_front();
      if (judge(pass))
        sink(PassTime{pass.range, pass.work.device_ns, pass.work.kernels, pass.work.first_ns, pass.work.last_ns});
    }
  }
  // What still waits will not be given out: it ran under what no longer holds (a plan), or at another time than it
  // says. Passes that go are counted as evicted.
  void forget();
  [[nodiscard]] const AttributionCounters& counters() const { return counters_; }
  // Who asked for what ran from `begin_ns` on, and when.
  struct LaunchSeen {
    std::uint32_t range = 0;                             // 0 = in none, or in one that is not told
    std::optional<std::uint64_t> end_ns = std::nullopt;  // of the call, to 64 ns
  };
  [[nodiscard]] std::optional<LaunchSeen> launch_of(std::uint32_t correlation, std::uint64_t begin_ns) const;
  // The id that a range was published under; 0 = it has none.
  [[nodiscard]] static std::uint32_t id_of(const RangeRecord& range) {
    return range.detail[0] | static_cast<std::uint32_t>(range.detail[1]) << 16U;
  }

 private:
  struct Launch {
    std::uint32_t correlation = 0;
    std::uint32_t range = 0;
    std::uint32_t ticks = 0;  // when the call ended, its low bits: four minutes; 0 = not known
    bool known = false;
    bool matched = false;
  };
  struct Waiting {  // kernels whose launch has not come
    std::uint32_t correlation = 0;
    KernelWork work;
  };
  struct Pass {
    RangeRecord range;
    KernelWork work;
    bool cut = false;  // there was no room for a range in it
    [[nodiscard]] bool settled(std::uint64_t newest_ns, std::uint64_t settle_ns) const {
      return newest_ns > range.end_ns + settle_ns;
    }
  };
  struct Orphan {  // a range that ended and waits for the one around it
    std::uint32_t id;
    std::uint16_t depth;
    std::uint64_t begin_ns;
  };

  void apply(Launch& launch, const KernelWork& work);
  [[nodiscard]] KernelWork* work_of(std::uint32_t range);
  void count_for(std::uint32_t range, std::uint32_t pass);
  void begin_pass(const RangeRecord& record, std::uint32_t id);
  [[nodiscard]] bool judge(const Pass& pass);
  void make_tables();

  const LostWindows& lost_;
  AttributionOptions options_;
  AttributionCounters counters_;
  std::vector<Launch> launches_;  // made with the first launch or kernel: most jobs have none
  std::vector<Waiting> waiting_;
  RangeBlocks ranges_;
  std::unordered_map<std::uint32_t, Pass> passes_;
  std::deque<std::uint32_t> order_;                                 // their ids, as they ended
  std::unordered_map<std::uint32_t, std::vector<Orphan>> orphans_;  // by thread
  std::uint64_t newest_ns_ = 0;
};

}  // namespace trimtab::agent
