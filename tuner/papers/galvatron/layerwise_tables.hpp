#pragma once

// What searches over layers share, also those of other batches: which strategies a pipeline degree has, how quick its
// layers can be, what its stages take. One per search; not thread-safe.

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "papers/galvatron/formulas.hpp"
#include "papers/galvatron/stage_table.hpp"

namespace trimtab::tuner::galvatron {

// What may vary.
struct LayerwiseSpace {
  std::int32_t batch = 1;
  std::vector<std::int32_t> microbatches;  // samples of one, each a divisor of the batch
  std::vector<std::int32_t> cuts;          // layers that a stage may begin with, ascending
  std::int32_t stages_min = 1;
  std::int32_t stages_max = 1;
  std::vector<std::int32_t> tensor_parallel{1};
  std::vector<std::int32_t> samples;  // of a microbatch on one replica; empty = any
  bool replicas = true;               // or shards: more than one of them
  bool mixed = true;                  // layers of a stage may be split in different ways
  bool sharded = true;                // parameters
  bool mixes = false;                 // replicas of shards
  bool shared_states = true;          // v2's default among replicas
  bool recompute = true;
  bool strided = true;
};

class LayerwiseTables {
 public:
  // Borrows the formulas. Of the space, what does not depend on the batch counts.
  LayerwiseTables(const Formulas& formulas, const LayerwiseSpace& space);

  // Sums over layers at their quickest, whatever memory they need.
  struct Quickest {
    double plain = std::numeric_limits<double>::infinity();
    double sync = std::numeric_limits<double>::infinity();
    double longest = std::numeric_limits<double>::infinity();  // layer, without synchronization
  };

  [[nodiscard]] const Formulas& formulas() const { return formulas_; }
  [[nodiscard]] const LayerRanges& ranges() const { return ranges_; }
  const Quickest& quickest(std::int32_t stages, std::int32_t batch, std::int32_t microbatches);
  // Lives as long as this, or, under the published programs' formulas, until tables of another batch are asked for.
  StageTable& table(std::int32_t stages, std::int32_t batch, std::int32_t microbatches);

 private:
  const TableSpace& space_of(std::int32_t stages, std::int32_t microbatch);
  [[nodiscard]] bool allows(const LayerStrategy& strategy, std::int32_t microbatch) const;
  [[nodiscard]] TableSpace make_space(std::int32_t stages, std::int32_t microbatch) const;
  [[nodiscard]] Quickest find_quickest(std::int32_t stages, std::int32_t batch, std::int32_t microbatches);

  const Formulas& formulas_;
  const LayerwiseSpace space_;
  const LayerRanges ranges_;
  std::int32_t batch_ = 0;  // of the published programs' tables
  std::map<std::pair<std::int32_t, std::int32_t>, TableSpace> spaces_;
  std::map<std::pair<std::int32_t, std::int32_t>, Quickest> quickest_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::unique_ptr<StageTable>> tables_;
};

}  // namespace trimtab::tuner::galvatron
