#pragma once

// Galvatron-BMW's whole search over a galvatron cost model's formulas: pipeline degrees and counts of microbatches
// (Algorithm 1 at one batch), partitions from memory-balanced to time-balanced (Algorithm 2), a strategy for every
// layer of every stage (equation 4). One per search; not thread-safe.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "galvatron_model/layered_plan.hpp"
#include "strategies/galvatron/chain_program.hpp"
#include "strategies/galvatron/partition.hpp"

namespace trimtab::tuner::galvatron {

// What may vary.
struct LayerwiseSpace {
  std::int32_t batch = 1;
  std::vector<std::int32_t> microbatches;  // samples of one, each a divisor of the batch
  std::vector<std::int32_t> cuts;          // layers that a stage may begin with, ascending
  std::int32_t stages_min = 1;
  std::int32_t stages_max = 1;
  std::vector<std::int32_t> tensor_parallel{1};
  bool sharded = true;        // parameters
  bool shared_states = true;  // v2's default among replicas
  bool recompute = true;
  bool strided = true;
};

// A partition that was tried: for traces and for those who keep plans.
struct Tried {
  const LayeredPlan* plan = nullptr;
  double ms = std::numeric_limits<double>::infinity();
  double before_ms = 0;    // of the best of this pipeline degree and count of microbatches so far
  const char* step = "";   // "memory-balanced", "adjusted", ...
  BalanceDegrees balance;  // of what the stages really take
  bool better = false;
};

class LayerwiseSearch {
 public:
  // Borrows the formulas. `tried` hears of every plan that fits; `stop` is asked before every partition.
  LayerwiseSearch(const Formulas& formulas, LayerwiseSpace space, std::function<void(const Tried&)> tried,
                  std::function<bool()> stop);

  // The quickest plan found that takes less than `below_ms`; nothing where none fits or is quicker.
  std::optional<LayeredPlan> run(double below_ms = std::numeric_limits<double>::infinity());
  [[nodiscard]] double best_ms() const { return best_ms_; }
  [[nodiscard]] std::uint64_t partitions() const { return partitions_; }

 private:
  struct StageChoice {
    std::vector<std::int32_t> strategies;
    StageSum sum;
    double memory_mib = 0;
  };
  // What one pipeline degree and count of microbatches share.
  struct Pipeline;
  // What of a stage's times counts: as the slowest of all, microbatch after microbatch and synchronization; or, where
  // others are slower, one microbatch with synchronization, in v2 without, which others hide.
  enum class Weight : std::uint8_t { kEveryMicrobatch, kOnce };

  void search(std::int32_t stages, std::int32_t microbatches);
  [[nodiscard]] bool prepare(Pipeline& pipeline) const;
  [[nodiscard]] double least_ms(const Pipeline& pipeline) const;
  const std::optional<StageChoice>& stage(Pipeline& pipeline, std::int32_t begin, std::int32_t end, std::int32_t stage,
                                          Weight weight);
  [[nodiscard]] std::optional<StageChoice> solve(const Pipeline& pipeline, std::int32_t begin, std::int32_t end,
                                                 std::int32_t stage, Weight weight) const;
  [[nodiscard]] std::optional<StageChoice> solve_within(const Pipeline& pipeline, const ChainProblem& problem,
                                                        std::int32_t stage) const;
  // Ms of the best plan of the partition; infinite where none fits.
  double try_partition(Pipeline& pipeline, const Partition& partition, const char* step);
  void adjust(Pipeline& pipeline);
  void climb(Pipeline& pipeline);
  [[nodiscard]] PartitionCosts costs_of(const Pipeline& pipeline, const Partition& partition) const;
  [[nodiscard]] bool allowed(const Partition& partition) const;

  const Formulas& formulas_;
  LayerwiseSpace space_;
  std::function<void(const Tried&)> tried_;
  std::function<bool()> stop_;
  std::vector<bool> may_cut_;
  std::optional<LayeredPlan> best_;
  double best_ms_ = std::numeric_limits<double>::infinity();
  std::uint64_t partitions_ = 0;
};

}  // namespace trimtab::tuner::galvatron
