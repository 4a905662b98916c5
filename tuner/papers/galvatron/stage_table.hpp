#pragma once

// What the layers of a stage take at best, for one pipeline degree, size and count of microbatches: exact, on demand,
// once for all stages and ranges that are alike. A stage has two times, the plain one of every microbatch and what
// synchronizing gradients adds to the last one; which of its choices is best depends on how much each of them weighs.
// One per search; not thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "papers/galvatron/chain_program.hpp"
#include "papers/galvatron/cut_program.hpp"
#include "papers/galvatron/formulas.hpp"
#include "papers/galvatron/layer_ranges.hpp"

namespace trimtab::tuner::galvatron {

// What the layers of a table may do.
struct TableSpace {
  std::vector<LayerStrategy> strategies;  // priced for some type
  bool plain_replicas = false;
  bool mixed = true;  // layers of a stage may be split in different ways
};

struct StagePoint {
  std::vector<std::int32_t> strategies;  // of each layer
  StageSum sum;
  double memory_mib = 0;  // without what the stage reserves
};

class StageTable {
 public:
  // Borrows all of them.
  StageTable(const Formulas& formulas, const TableSpace& space, const LayerRanges& ranges,
             const Situation& first_stage);

  [[nodiscard]] const LayerRanges& ranges() const { return ranges_; }
  [[nodiscard]] const TableSpace& space() const { return space_; }
  // Rows of ranges.count() slots; stages that are alike share one.
  [[nodiscard]] std::size_t row_of(std::int32_t stage) const {
    return static_cast<std::size_t>(class_of_[static_cast<std::size_t>(stage)]) *
           static_cast<std::size_t>(ranges_.count());
  }
  [[nodiscard]] std::size_t slots() const { return classes_.size() * static_cast<std::size_t>(ranges_.count()); }
  [[nodiscard]] std::size_t slot(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
    return row_of(stage) + static_cast<std::size_t>(ranges_.number(begin, end));
  }

  // Asked while a stage is chosen; true ends that with the best so far.
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }
  // Whether some choice was, or had more labels than there is memory for: what least() and within() answer may be
  // beaten, and no bound comes of it. values() remain bounds.
  [[nodiscard]] bool cut_short() const { return cut_short_; }
  // The choice of least weighed() time; null where none fits. REQUIRES: 0 <= sync_share <= 1.
  const StagePoint* least(std::size_t slot, double sync_share);
  // What that is for every slot as far as it is known, from below: layout changes and recompute peaks are left out.
  // refine() makes one value exact; infinite where none fits.
  CutValues& values(double sync_share);
  void refine(CutValues& values, std::size_t slot, double sync_share);

  // The least weighed() time of choices whose plain time is at most `plain_ms`.
  struct Within {
    double least = 0;                   // none takes less; infinite where none is so quick
    const StagePoint* point = nullptr;  // the best that is known
  };
  Within within(std::size_t slot, double plain_ms, double sync_share);

  // Infinite times where the formulas do not price the strategy.
  [[nodiscard]] const LayerCost& cost(std::int32_t stage, std::int32_t type, std::int32_t strategy) const;
  [[nodiscard]] double reserved_mib(std::int32_t stage) const;
  // The strategy that a layer of the type needs least memory under, on the first stage.
  [[nodiscard]] std::int32_t leanest(std::int32_t type) const;

 private:
  // Stages whose layers cost the same and may hold the same.
  struct StageClass {
    std::vector<std::vector<LayerCost>> costs;  // by type and strategy
    double reserved = 0;
    double recompute_reserve = 0;
  };
  // The layer programs of a class and a weight, the best of which counts: whether a stage recomputes at all, and how it
  // is split, may be cases of their own.
  using Programs = std::vector<ChainProgram>;
  struct Solved {
    double sync_share = 0;
    double value = 0;
    std::size_t point = 0;
  };
  // What is known of a slot.
  struct Known {
    bool never = false;
    std::vector<Solved> solved;  // ascending by weight
    std::vector<std::unique_ptr<StagePoint>> points;
  };

  [[nodiscard]] StageClass class_at(const Situation& at) const;
  [[nodiscard]] std::vector<double> floors(double sync_share) const;
  [[nodiscard]] ChainProblem problem_of(const StageClass& of, double sync_share) const;
  Programs& programs(std::size_t stage_class, double sync_share);
  std::optional<StagePoint> solve(std::size_t slot, double sync_share);
  [[nodiscard]] std::optional<StagePoint> solve_with(ChainProgram& program, const StageClass& of,
                                                     std::span<const std::int32_t> kinds);
  [[nodiscard]] const StagePoint* recall(const Known& known, double sync_share) const;

  const Formulas& formulas_;
  const TableSpace& space_;
  const LayerRanges& ranges_;
  std::function<bool()> stop_;
  bool cut_short_ = false;
  bool recompute_ = false;  // some of the strategies do
  std::vector<StageClass> classes_;
  std::vector<std::int32_t> class_of_;        // by stage
  std::vector<std::vector<double>> changes_;  // by type; empty = nothing
  std::map<std::pair<std::size_t, double>, Programs> programs_;
  std::vector<std::unique_ptr<Known>> known_;  // by slot; null where nobody has asked
  std::map<double, CutValues> values_;
};

// What plain time and synchronization take together at their weights: share 0 is the plain time, 1 synchronization
// alone, a half one of each, halved.
[[nodiscard]] inline double weighed(const StageSum& sum, double sync_share) {
  return (1 - sync_share) * sum.plain_ms + sync_share * (sum.sync_ms - sum.plain_ms);
}

}  // namespace trimtab::tuner::galvatron
