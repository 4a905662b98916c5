#pragma once

// A chain of blocks to be cut into the stages of a 1F1B pipeline: AutoPipe's problem (Liu et al., CLUSTER 2022, section
// III-B), with a transfer for each cut and with memory, which the paper leaves out. Pure values; times in one unit.

#include <cstdint>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "solvers/autopipe/critical_path.hpp"
#include "solvers/autopipe/recurrences.hpp"

namespace trimtab::tuner::autopipe {

// One past the last block of each stage, ascending; the last is the number of blocks.
using Ends = std::vector<std::int32_t>;

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct Blocks {
  std::vector<double> forward;   // of one microbatch
  std::vector<double> backward;  // recompute included
  // Of one microbatch over a cut before the block, [hop][block] with hop x between stages x and x + 1; or [block] alone
  // where all hops are alike. That of the first block is not used.
  std::vector<double> transfer;
  // Furthest end of a stage that fits its memory, [stage][first block], never falling along a stage's first blocks; the
  // first block itself where not even that fits. Empty: no limits. A stage x holds min(m, p - x) microbatches, so its
  // limit depends on x.
  std::vector<std::int32_t> reach;
  std::int32_t stages = 1;
  std::int32_t microbatches = 1;
  Transfers transfers = Transfers::kBlocking;
  bool slices = false;  // the first microbatches may be sliced, as many as pays
  // What a stage recomputes in each backward pass to fit its memory, beyond `backward`; none: nothing. Asked once per
  // stage and range within its reach.
  std::function<double(std::int32_t stage, std::int32_t begin, std::int32_t end)> recompute = {};

  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(forward.size()); }
};

// The blocks with their sums, on a grid of numbers that add up without rounding: times of equal partitions are equal
// whatever the order of their sums. Not thread-safe where stages recompute.
class Partitions {
 public:
  // REQUIRES: 1 <= stages <= blocks, microbatches >= 1.
  explicit Partitions(const Blocks& blocks);

  [[nodiscard]] std::int32_t blocks() const { return count_; }
  [[nodiscard]] std::int32_t stages() const { return stages_; }
  [[nodiscard]] std::int32_t microbatches() const { return microbatches_; }
  [[nodiscard]] Transfers transfers() const { return transfers_; }
  [[nodiscard]] double forward(std::int32_t begin, std::int32_t end) const { return forward_[end] - forward_[begin]; }
  [[nodiscard]] double backward(std::int32_t begin, std::int32_t end) const {
    return backward_[end] - backward_[begin];
  }
  [[nodiscard]] double work(std::int32_t begin, std::int32_t end) const { return work_[end] - work_[begin]; }
  [[nodiscard]] bool slices() const { return slices_; }
  // From stage `hop` to the next, over the cut before block `cut`; 0 at both ends of the pipeline.
  [[nodiscard]] double transfer(std::int32_t hop, std::int32_t cut) const {
    return hop < 0 || hop + 1 >= stages_ ? 0 : transfer_[static_cast<std::size_t>(hop) * count_ + cut];
  }
  [[nodiscard]] double least_transfer() const { return least_transfer_; }
  // Of one backward pass.
  [[nodiscard]] double recompute(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
    return recompute_ ? recomputed(stage, begin, end) : 0;
  }
  [[nodiscard]] std::int32_t reach(std::int32_t stage, std::int32_t begin) const {
    return reach_.empty() ? count_ : reach_[static_cast<std::size_t>(stage) * count_ + begin];
  }
  [[nodiscard]] bool fits(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
    return end <= reach(stage, begin);
  }
  // Every stage has a block and fits.
  [[nodiscard]] bool allowed(const Ends& ends) const;
  [[nodiscard]] std::int32_t warmup(std::int32_t stage) const { return std::min(microbatches_, stages_ - 1 - stage); }

 private:
  [[nodiscard]] double recomputed(std::int32_t stage, std::int32_t begin, std::int32_t end) const;

  std::int32_t count_;
  std::int32_t stages_;
  std::int32_t microbatches_;
  Transfers transfers_;
  bool slices_;
  double grid_;
  std::vector<double> forward_, backward_, work_;  // sums of the blocks before; one more than blocks
  std::vector<double> transfer_;                   // [hop][cut]
  double least_transfer_ = 0;
  std::vector<std::int32_t> reach_;
  std::function<double(std::int32_t, std::int32_t, std::int32_t)> recompute_;
  mutable std::unordered_map<std::uint64_t, double> recomputed_;  // what was asked for
};

// A partition's stages as the recurrences take them.
class StagePipeline {
 public:
  explicit StagePipeline(const Partitions& partitions)
      : forward_(static_cast<std::size_t>(partitions.stages())),
        backward_(forward_.size()),
        transfer_(forward_.size()) {}
  StagePipeline(const Partitions& partitions, const Ends& ends) : StagePipeline(partitions) { set(partitions, ends); }

  void set(const Partitions& partitions, const Ends& ends);
  // Valid until the next set() and as long as this.
  [[nodiscard]] Pipeline view() const {
    return {forward_.data(), backward_.data(), transfer_.data(), static_cast<std::int32_t>(forward_.size()),
            microbatches_,   transfers_};
  }

 private:
  std::vector<double> forward_, backward_, transfer_;
  std::int32_t microbatches_ = 1;
  Transfers transfers_ = Transfers::kBlocking;
};

// Simulates partitions. Counts its work, in actions of a stage, which is what a search's effort is limited by: the same
// effort gives the same answer on any machine. Not thread-safe.
class Simulator {
 public:
  // `partitions` must outlive this.
  explicit Simulator(const Partitions& partitions);

  // With as many sliced microbatches as pay, where slices are allowed.
  [[nodiscard]] double time(const Ends& ends);
  // Without slices, and the master stage.
  struct Step {
    double time = 0;
    std::int32_t master = 0;
  };
  [[nodiscard]] Step step(const Ends& ends);

  [[nodiscard]] std::uint64_t work() const { return work_; }
  void count(std::uint64_t work) { work_ += work; }

 private:
  [[nodiscard]] Pipeline pipeline(const Ends& ends);
  // Of one step.
  [[nodiscard]] std::uint64_t actions() const {
    return 2 * static_cast<std::uint64_t>(partitions_.stages()) *
           static_cast<std::uint64_t>(partitions_.microbatches());
  }

  const Partitions& partitions_;
  StagePipeline stages_;
  PipelineTimes times_;
  RecordedPipeline recorded_;
  std::uint64_t work_ = 0;
};

}  // namespace trimtab::tuner::autopipe
