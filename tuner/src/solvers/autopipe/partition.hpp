#pragma once

// A chain of blocks to be cut into the stages of a 1F1B pipeline: AutoPipe's problem (Liu et al., CLUSTER 2022, section
// III-B), with a transfer for each cut and with memory, which the paper leaves out. Pure values; times in one unit.

#include <functional>
#include <limits>
#include <unordered_map>

#include "solvers/autopipe/critical_path.hpp"

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

// What a partition takes at least, from simple paths through the step, and the least of that over all partitions.
//
// A path fills the pipeline up to stage x, stays there and drains it again: microbatches times the stage's work, with
// what its transfers hold up where they block; or, for the first or the last microbatch, goes down to the last stage
// and back before or after it stays at x. Every partition's step takes at least the longest of these. Two stays, one at
// a later stage z and one in the warm-up or cool-down of stage x before it, bound a whole partition further. Recompute
// is not counted: with it a step only takes longer. Immutable.
class PartitionFloor {
 public:
  // Under the memory limits of the partitions; O(blocks^2 x stages). Must not outlive them.
  explicit PartitionFloor(const Partitions& partitions);

  // No step of any partition takes less; kNever where no partition fits.
  [[nodiscard]] double least() const { return rest(0, 0); }
  // Of what follows once stages [0, stage) hold blocks [0, begin): the least floor, counted from when the pipeline is
  // filled up to `stage`.
  [[nodiscard]] double rest(std::int32_t stage, std::int32_t begin) const {
    return rest_[static_cast<std::size_t>(stage) * (partitions_.blocks() + 1) + begin];
  }
  // A partition whose floor is the least. REQUIRES: least() is finite.
  [[nodiscard]] Ends ends_of_least() const;

  // Of one stage, counted from when the pipeline is filled up to it.
  [[nodiscard]] double of_stage(std::int32_t stage, std::int32_t begin, std::int32_t end) const;
  // What filling and draining one stage and the hop behind it takes; a first half fills it in half the time.
  [[nodiscard]] double passing(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
    const double hop = partitions_.transfer(stage, end);
    if (!partitions_.slices()) return partitions_.work(begin, end) + 2 * hop;
    return partitions_.forward(begin, end) / 2 + partitions_.backward(begin, end) + 1.5 * hop;
  }
  // Two stays: at `x` while the pipeline drains or fills, and at `z` behind it, whose pipeline is filled after
  // `filled`.
  struct Stage {
    std::int32_t begin, end;
  };
  [[nodiscard]] double of_pair(std::int32_t x, const Stage& first, std::int32_t z, const Stage& second,
                               double filled) const;
  // The longest of the single stays; and of all.
  [[nodiscard]] double quick(const Ends& ends) const;
  [[nodiscard]] double of(const Ends& ends) const;

 private:
  [[nodiscard]] double floor_from(std::int32_t stage, std::int32_t begin, std::int32_t end) const;

  const Partitions& partitions_;
  std::vector<double> rest_;  // [stage][begin]
};

// How many microbatches to slice (AutoPipe, section III-C, Algorithm 2). Pure.

// Most microbatches that may be sliced: later ones are in no stage's warm-up.
[[nodiscard]] inline std::int32_t most_sliced(const Pipeline& pipeline) {
  return std::min(pipeline.stages - 1, pipeline.microbatches);
}

struct SlicingGain {
  std::int32_t sliced = 0;  // the fewest microbatches of the fastest; 0 where slicing does not pay
  double plain = 0;         // the step's time without slicing
  double best = 0;          // and with `sliced`
};

// Exact: every number of sliced microbatches is simulated. `pipeline.sliced` is not looked at.
[[nodiscard]] SlicingGain best_slicing(Pipeline pipeline, PipelineTimes& scratch);

// Algorithm 2 as its text means it. As printed it takes half of two forwards that are whole, tests a blocking transfer
// before the value it needs exists, charges the hop out of stage 0 nothing and ends its loop on the reversed condition,
// so that it may never end. It looks at the slot of each stage's second steady forward alone: an estimate, less than
// 1.5 % from best_slicing() in tests. It takes halves to be as fast as wholes.
[[nodiscard]] std::int32_t algorithm_2(const Pipeline& pipeline);

// When the last stage gets its first input: the start-up overhead that slicing halves.
[[nodiscard]] double startup_overhead(const Pipeline& pipeline, bool sliced);

}  // namespace trimtab::tuner::autopipe
