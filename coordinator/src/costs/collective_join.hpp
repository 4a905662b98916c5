#pragma once

// A collective's stamps of all its ranks, joined: how long the transfer itself took, who waited for how long, who came
// last. Pure; time comes in. One owner thread. Bounded: what does not complete is given up and counted.
//
// A rank's own time in a collective contains waiting for the others. In an all-reduce, an all-gather and a
// reduce-scatter nobody is done before everybody has come and all end within a hop of each other, so
//   transfer = the earliest end - the latest beginning;   waiting of a rank = the latest beginning - its own.
// Stamps come from as many clocks as there are GPUs. What is known of them comes two ways:
// Each GPU's clock was compared with its host's, and the hosts' with the coordinator's: hard bounds (StampClock),
// within a host some microseconds apart, between hosts half a round trip. And the ends are one instant, give or take a
// hop: from each communicator's last collectives a median difference per rank is kept. Not a bound, but as near as a
// hop, and free of drift. A rank's clock is taken to be where the ends say, or at the nearest place that the bounds
// allow. Where the ends of the collective then do not meet, the bounds or the medians are wrong of it (a clock was set,
// a host lies): it is aligned by its own ends, the transfer is the shortest rank's own time, and nobody is called late.
// Nor is anybody whose lateness the bounds do not prove. Rooted collectives do not end together: they are not joined.
// A send and its receive: transfer_join.hpp.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.hpp"
#include "base/clock_difference.hpp"
#include "schema/cost_source.hpp"

namespace trimtab::coordinator {

// How far the clock of a stamp is ahead of the coordinator's: by both together.
struct StampClock {
  std::uint32_t node = 0;                            // the same number is the same host clock
  ClockDifference::Offset gpu = {};                  // the GPU's, of its host's
  std::optional<ClockDifference::Offset> host = {};  // the host's, of the coordinator's; not needed within one host
};

// No stamp is later.
inline constexpr std::uint64_t kLatestStamp = std::uint64_t{1} << 61;

// What a peer says of the clock of a stamp that begins then, as far as it can be true.
[[nodiscard]] std::optional<StampClock> usable_clock(std::optional<StampClock> clock, std::uint64_t begin_ns);

// How far the first clock is ahead of the second. Nothing where nobody has compared them.
struct Between {
  std::int64_t ahead = 0;
  std::int64_t unsure = 0;
  [[nodiscard]] std::int64_t least() const { return ahead - unsure; }
  [[nodiscard]] std::int64_t most() const { return ahead + unsure; }
};
[[nodiscard]] std::optional<Between> between(const std::optional<StampClock>& first,
                                             const std::optional<StampClock>& second);

// Of two stamps; below kLatestStamp it never overflows.
[[nodiscard]] inline std::int64_t difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b);
}

struct CollectiveFacts {
  std::uint64_t communicator = 0;
  std::uint8_t function = 0;  // schema/nccl.hpp, like the next two
  std::uint8_t algorithm = 0;
  std::uint8_t protocol = 0;
  std::uint32_t channels = 0;
  std::uint32_t ranks = 0;
  std::uint32_t nodes = 0;
  std::int64_t bytes = 0;
  bool operator==(const CollectiveFacts&) const = default;
};

// When a rank was in it, and who that is.
struct RankTimes {
  std::uint32_t job_rank = 0;
  std::uint64_t begin_ns = 0;  // 0 = not known
  std::uint64_t end_ns = 0;    // not before begin_ns
  std::optional<StampClock> clock = {};
  CostSource::Beside beside = CostSource::Beside::kNotSaid;  // what the rank computed meanwhile
};

struct RankStamp : RankTimes {
  CollectiveFacts facts;
  std::uint32_t sequence = 0;
  std::uint32_t rank = 0;  // in the communicator; below facts.ranks
};

struct JoinedCollective {
  CollectiveFacts facts;
  std::int64_t transfer_ns = 0;
  CostSource::Beside beside = CostSource::Beside::kNotSaid;  // of all ranks together
  std::vector<std::int64_t> waiting_ns;                      // by rank in the communicator
  std::vector<std::uint32_t> job_ranks;                      // likewise
  // Who came last, where it was later than the one before it by more than a tenth of the transfer and 20 µs, and the
  // clocks' bounds leave no doubt that it was.
  std::optional<std::uint32_t> late_job_rank;
};

// Of several ranks: beside computation where one of them was, alone where each says so.
[[nodiscard]] CostSource::Beside together(CostSource::Beside one, CostSource::Beside other);

struct JoinCounters {
  std::uint64_t joined = 0;
  std::uint64_t repeated = 0;       // a rank's stamp that was there already
  std::uint64_t incomplete = 0;     // given up: some ranks' stamps never came
  std::uint64_t contradictory = 0;  // stamps that say different things of one collective
  std::uint64_t implausible = 0;    // the ends lie apart, clocks considered: not one collective, or a clock was set
  std::uint64_t unfit = 0;          // rooted, or no collective at all
  std::uint64_t unsure = 0;         // of the joined: a rank seemed late, but the clocks do not prove it
  std::uint64_t clocks_wrong = 0;   // of the joined: the hosts' clocks contradict the ends
};

struct JoinLimits {
  std::size_t pending = 8192;        // collectives that wait for stamps
  std::size_t stamps = 1U << 19;     // that those make room for
  std::size_t communicators = 4096;  // whose clocks are known; the one unused for longest is forgotten
  Nanoseconds patience = std::chrono::seconds(30);
};

class CollectiveJoin {
 public:
  explicit CollectiveJoin(JoinLimits limits = {}) : limits_(limits) {}

  // The collective that this stamp completes.
  [[nodiscard]] std::optional<JoinedCollective> add(const RankStamp& stamp, Nanoseconds now);
  // Gives up what has waited for too long.
  void expire(Nanoseconds now);

  [[nodiscard]] const JoinCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t pending() const { return pending_.size(); }

 private:
  struct Key {
    std::uint64_t communicator = 0;
    std::uint8_t function = 0;
    std::uint32_t sequence = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Pending {
    CollectiveFacts facts;
    Nanoseconds since{0};
    std::uint32_t missing = 0;
    std::vector<RankTimes> ranks;
  };
  // Of one communicator: what each rank's clock is ahead of rank 0's, as its last collectives' ends say.
  struct Clocks {
    static constexpr std::size_t kKept = 9;
    std::vector<std::vector<std::int64_t>> differences;  // by rank, the latest kKept
    std::size_t next = 0;
    std::uint64_t used = 0;
  };

  [[nodiscard]] std::optional<JoinedCollective> complete(const Pending& pending);
  [[nodiscard]] Clocks& clocks_of(const CollectiveFacts& facts);
  static void learn(Clocks& clocks, const std::vector<std::int64_t>& differences);
  [[nodiscard]] static std::vector<std::int64_t> offsets(const Clocks& clocks);
  void remove(std::map<Key, Pending>::iterator entry);
  void give_up_oldest();
  void remember(const Key& key);

  static constexpr std::size_t kRemembered = 16384;
  JoinLimits limits_;
  JoinCounters counters_;
  std::map<Key, Pending> pending_;
  std::deque<Key> order_;  // as they began; may name what is complete
  std::size_t stamps_ = 0;
  std::set<Key> done_;  // lately: their stamps are repetitions
  std::deque<Key> done_order_;
  std::map<std::uint64_t, Clocks> clocks_;
  std::uint64_t uses_ = 0;
};

}  // namespace trimtab::coordinator
