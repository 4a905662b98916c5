#pragma once

// One process's collectives on their way to the join over ranks: one in 2^level of them, by a hash that every rank
// computes alike (schema/nccl.hpp), so that the ranks keep the same ones without speaking to each other. The level
// rises when more come than may be sent, and falls again: what a rank sends is bounded, however many it runs. Sends and
// receives are sampled likewise, by when they ended. Pure. Single-threaded.

#include "base/clock_difference.hpp"
#include "costs/cost_batches.hpp"
#include "net/metric_text.hpp"
#include "records/ring_reader.hpp"

namespace trimtab::agent {

struct CollectiveStamp {
  std::uint64_t communicator = 0;
  std::uint8_t function = 0;  // schema/nccl.hpp, like the next two
  std::uint8_t algorithm = 0;
  std::uint8_t protocol = 0;
  std::uint16_t channels = 0;
  std::uint32_t sequence = 0;  // of a collective
  std::uint32_t peer = 0;      // of a send or a receive
  std::uint32_t ranks = 0;
  std::uint32_t rank = 0;
  std::uint32_t nodes = 0;
  std::int64_t bytes = 0;
  std::uint64_t begin_ns = 0;  // the GPU's clock
  std::uint64_t end_ns = 0;
  std::optional<ClockDifference::Offset> gpu_ahead = {};  // of the host's clock
  CostSource::Beside beside = CostSource::Beside::kNotSaid;
};

class CollectiveSamples final {
 public:
  // At most this many between two calls of take(); about 50 bytes each on the wire.
  static constexpr std::size_t kMost = 64;
  // After so many calls in a row that found fewer than a quarter of kMost, the level falls.
  static constexpr int kQuietTakes = 8;

  CollectiveSamples() = default;
  // Of another kind of record: record::kP2p.
  explicit CollectiveSamples(std::uint16_t kind) : kind_(kind) {}

  // Any record, by the GPU's clock, which is so far ahead of the host's; only the own kind matters. What was fused with
  // others has no time of its own and is left out: NCCL's mark, or the same beginning as the communicator's one before
  // it. A send or a receive by a clock that was not compared with the host's is unfit.
  void add(const RangeRecord& record, const std::optional<ClockDifference::Offset>& gpu_ahead = {});
  [[nodiscard]] std::vector<CollectiveStamp> take();

  struct Counters {
    std::uint64_t seen = 0;
    std::uint64_t fused = 0;
    std::uint64_t unfit = 0;  // no communicator or function is known, or a single rank; of a p2p also: no clock
    std::uint64_t taken = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::uint32_t level() const { return level_; }

 private:
  struct Last {
    CollectiveStamp stamp;
    bool fused = false;
    bool waits = false;  // for the next one, which may have the same beginning
  };
  [[nodiscard]] bool sampled(const CollectiveStamp& stamp) const;
  void let_go(Last& last);
  void keep(const CollectiveStamp& stamp);
  void adapt(std::size_t taken);

  static constexpr std::size_t kMostCommunicators = 1024;
  std::uint16_t kind_ = record::kCollective;
  std::map<std::uint64_t, Last> last_;  // by communicator
  std::vector<CollectiveStamp> kept_;
  std::uint32_t level_ = 0;
  int quiet_ = 0;
  Counters counters_;
};

// A rank's sampled collectives as a message to the coordinator. Pure.
[[nodiscard]] wire::FromAgent stamps_message(const CostOwner& owner, std::uint32_t rank,
                                             const std::vector<CollectiveStamp>& stamps);

// How long the node's sampled collectives take, as histograms by job, function and size. Bounded: jobs beyond the limit
// push out the one that was silent longest. Pure.
class CollectiveTimes final {
 public:
  static constexpr std::size_t kMostJobs = 8;

  // Waiting for later ranks is in a collective's time.
  void add(const std::string& job, const std::vector<CollectiveStamp>& stamps);
  void append(std::vector<net::Metric>& into) const;

 private:
  struct Job {
    std::uint64_t touched = 0;
    std::map<std::pair<std::uint8_t, std::size_t>, net::Histogram> times;  // by function and size bucket
  };
  Job& job_of(const std::string& name);

  std::map<std::string, Job> jobs_;
  std::uint64_t turn_ = 0;
};

}  // namespace trimtab::agent
