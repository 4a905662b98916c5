#pragma once

// Galvatron-BMW's whole search over a galvatron cost model's formulas: pipeline degrees and counts of microbatches
// (Algorithm 1 at one batch), partitions from memory-balanced to time-balanced (Algorithm 2), a strategy for every
// layer of every stage (equation 4); then all other partitions at once, exactly or with a bound. One per search; not
// thread-safe.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "papers/galvatron/cut_program.hpp"
#include "papers/galvatron/layered_plan.hpp"
#include "papers/galvatron/layerwise_tables.hpp"
#include "strategies/galvatron/partition.hpp"

namespace trimtab::tuner::galvatron {

// A partition that was tried: for traces and for those who keep plans.
struct Tried {
  const LayeredPlan* plan = nullptr;
  double ms = std::numeric_limits<double>::infinity();
  double before_ms = 0;    // of the best so far
  const char* step = "";   // "memory-balanced", "adjusted", ...
  BalanceDegrees balance;  // of what the stages really take
  bool better = false;
};

class LayerwiseSearch {
 public:
  // Of every plan that fits; false: it must not be used.
  using Listener = std::function<bool(const Tried&)>;

  // Borrows the formulas. `tried` may be null. `stop` is asked before every partition. `tables` may be those of another
  // batch's search with the same space; null = its own.
  LayerwiseSearch(const Formulas& formulas, LayerwiseSpace space, Listener tried, std::function<bool()> stop,
                  std::shared_ptr<LayerwiseTables> tables = nullptr);

  // The quickest plan found that takes less than `below_ms`; nothing where none fits or is quicker.
  std::optional<LayeredPlan> run(double below_ms = std::numeric_limits<double>::infinity());
  [[nodiscard]] double best_ms() const { return best_ms_; }
  // No plan of the space takes less, as far as that is below best_ms(); after run().
  [[nodiscard]] double lower_bound_ms() const { return lower_bound_ms_; }
  [[nodiscard]] std::uint64_t partitions() const { return partitions_; }

 private:
  using Choices = std::vector<const StagePoint*>;  // by stage

  // One pipeline degree and count of microbatches.
  struct Pipeline {
    std::int32_t stages = 1;
    std::int32_t microbatches = 1;
    double least_ms = 0;  // with layers at their quickest
    double bound_ms = 0;  // no plan of it takes less
    StageTable* table = nullptr;
    std::map<Partition, double> tried;
    Partition best_partition;
    Choices best_choices;
    double best_ms = std::numeric_limits<double>::infinity();

    // The weight of a stage's synchronization beside its plain time (weighed()): in an iteration whose slowest stage it
    // is, where v2 counts the filling of all other stages at its pace too; and in one that counts it once.
    [[nodiscard]] double every_share(Variant variant) const;
    [[nodiscard]] double once_share(Variant variant) const { return variant == Variant::kPaper ? 0.5 : 0; }
    // Plain times of the slowest stage in an iteration.
    [[nodiscard]] double paces(Variant variant) const;
  };

  [[nodiscard]] std::vector<Pipeline> pipelines();
  void search(Pipeline& pipeline);
  void try_runners_up(std::vector<Pipeline>& pipelines);
  // Ms of the best plan of the partition; infinite where none fits. Begins with `choices`, if any.
  double try_partition(Pipeline& pipeline, const Partition& partition, const char* step, const Choices& choices = {});
  double polish(const Pipeline& pipeline, const Partition& partition, Choices& choices);
  double report(Pipeline& pipeline, const Partition& partition, const Choices& choices, double ms, const char* step);
  void adjust(Pipeline& pipeline);
  void climb(Pipeline& pipeline);
  [[nodiscard]] PartitionCosts costs_of(const Pipeline& pipeline, const Partition& partition) const;
  [[nodiscard]] bool allowed(const Partition& partition) const;

  // What no partition of the pipeline takes less than, infinite where nothing fits: at a glance; and as exactly as can
  // be, trying better partitions that turn up.
  double quick_bound(const Pipeline& pipeline);
  double bound_of(Pipeline& pipeline);
  double bound_of_one(const Pipeline& pipeline);
  double bound_by_sum(Pipeline& pipeline);
  double bound_by_pace(Pipeline& pipeline);
  CutAnswer cuts(const Pipeline& pipeline, CutGoal goal, double sync_share, double below);
  // Of partitions with stages at least so quick: the least of what is not paces, and how.
  CutAnswer cuts_within(const Pipeline& pipeline, double pace, double below);
  Choices choices_within(const Pipeline& pipeline, const Partition& partition, double pace);
  [[nodiscard]] CutShape shape_of(const Pipeline& pipeline) const;

  const Formulas& formulas_;
  const LayerwiseSpace space_;
  const Listener tried_;
  const std::function<bool()> stop_;
  const std::shared_ptr<LayerwiseTables> tables_;
  std::vector<bool> may_cut_;
  std::optional<LayeredPlan> best_;
  double best_ms_ = std::numeric_limits<double>::infinity();
  double lower_bound_ms_ = std::numeric_limits<double>::infinity();
  std::uint64_t partitions_ = 0;
};

}  // namespace trimtab::tuner::galvatron
