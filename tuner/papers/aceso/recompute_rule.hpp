#pragma once

// Which operators of a stage are recomputed: by the published code's rule, or as little time as makes the stage fit
// where a plan may choose freely.

#include <cstdint>
#include <span>
#include <vector>

#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {

// Name by name, largest activations first, until the stage fits (COST_MODEL of the peer data, section 4). Keeps its
// working memory from stage to stage: one per search, not thread-safe.
class RecomputeRule {
 public:
  // `tables` must outlive this.
  explicit RecomputeRule(const Tables& tables);

  // Flags of what is recomputed so that the stage, which needs `memory` MiB without, needs at most `limit`; all that
  // the rule offers where nothing makes it fit. Answers with what that saves.
  Saved derive(std::int32_t begin, std::span<const OperatorSplit> splits, std::int32_t copies, double memory,
               double limit, std::vector<std::uint8_t>& recompute);

 private:
  struct Group {  // of operators of one name; their places in the stage are a list
    std::int32_t group = 0, first = 0, last = 0;
    double gain = 0;
    bool used = false;
  };

  void gather(std::int32_t begin, const StageView& view, std::int32_t copies);
  [[nodiscard]] std::int32_t largest() const;
  void take(const StageView& view, const Group& group, std::int32_t copies, double excess,
            std::vector<std::uint8_t>& recompute) const;

  const Tables& tables_;
  std::vector<Group> groups_;        // by first appearance
  std::vector<std::int32_t> slots_;  // by group of the model: its place in groups_, or -1
  std::vector<std::int32_t> next_;   // by operator of the stage: the next one of its name, or -1
};

// The same for once.
void derive_recompute(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                      const Place& place, std::vector<std::uint8_t>& recompute);

// Recomputes what frees most memory for its time until the stage fits: runs of operators by their cost for one of
// memory (a Lagrangian search over the price of memory), then the runs that turn out not to be needed are kept again.
// All that frees memory where nothing makes it fit.
void choose_recompute(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                      const Place& place, std::vector<std::uint8_t>& recompute);

// Recomputes `count` more operators, those of the largest activation for their time first.
void recompute_further(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                       std::int32_t count, std::vector<std::uint8_t>& recompute);

}  // namespace trimtab::tuner::aceso
