#pragma once

// What searches over layers share, also those of other batches: which strategies a pipeline degree has, how quick its
// layers can be, what its stages take. One per search; not thread-safe.

#include <algorithm>
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
  LayerwiseTables(const Formulas& formulas, const LayerwiseSpace& space)
      : formulas_(formulas), space_(space), ranges_(formulas.profile().type_of) {}

  // Sums over layers at their quickest, whatever memory they need.
  struct Quickest {
    double plain = std::numeric_limits<double>::infinity();
    double sync = std::numeric_limits<double>::infinity();
    double longest = std::numeric_limits<double>::infinity();  // layer, without synchronization
  };

  [[nodiscard]] const LayerRanges& ranges() const { return ranges_; }
  const Quickest& quickest(std::int32_t stages, std::int32_t batch, std::int32_t microbatches) {
    const auto [at, fresh] = quickest_.try_emplace({stages, batch / microbatches});
    if (fresh) at->second = find_quickest(stages, batch, microbatches);
    return at->second;
  }
  // Lives as long as this, or, under the published programs' formulas, until tables of another batch are asked for.
  StageTable& table(std::int32_t stages, std::int32_t batch, std::int32_t microbatches) {
    // By the paper's equations layers know the size of a microbatch and how many are in flight, nothing else of a
    // batch.
    const bool paper = formulas_.variant() == Variant::kPaper;
    if (!paper && batch != batch_) tables_.clear();
    batch_ = batch;
    const std::int32_t counted = paper ? std::min(microbatches, stages) : microbatches;
    std::unique_ptr<StageTable>& table = tables_[{stages, batch / microbatches, counted}];
    if (!table) {
      const Situation first{batch, microbatches, stages, 0};
      table = std::make_unique<StageTable>(formulas_, space_of(stages, batch / microbatches), ranges_, first);
    }
    return *table;
  }

 private:
  const TableSpace& space_of(std::int32_t stages, std::int32_t microbatch) {
    const auto [at, fresh] = spaces_.try_emplace({stages, microbatch});
    if (fresh) at->second = make_space(stages, microbatch);
    return at->second;
  }
  [[nodiscard]] bool allows(const LayerStrategy& strategy, std::int32_t microbatch) const {
    const auto listed = [](const std::vector<std::int32_t>& values, std::int32_t value) {
      return std::find(values.begin(), values.end(), value) != values.end();
    };
    const std::int32_t replicas = strategy.replicas();
    if (!listed(space_.tensor_parallel, strategy.tp()) || !strategy.in_document_order()) return false;
    if (replicas > 1 && (!space_.replicas || microbatch % replicas != 0)) return false;
    if (strategy.sharded() > 1 && !space_.sharded) return false;
    // v1's microbatch is not the plan's.
    const bool any_size = space_.samples.empty() || formulas_.variant() == Variant::kV1;
    return any_size || listed(space_.samples, microbatch / replicas);
  }
  // The strategies that some type of layer may take.
  [[nodiscard]] TableSpace make_space(std::int32_t stages, std::int32_t microbatch) const {
    const Profile& profile = formulas_.profile();
    TableSpace space;
    space.mixed = space_.mixed;
    space.plain_replicas = formulas_.variant() == Variant::kV2 && !space_.shared_states;
    TreeRules rules;
    rules.mixes = space_.mixes;
    rules.recompute = space_.recompute;
    rules.strided = space_.strided;
    for (const LayerStrategy& strategy : decision_tree(profile.devices / stages, rules)) {
      if (!allows(strategy, microbatch)) continue;
      bool any = false;
      for (std::size_t type = 0; type < profile.types.size(); ++type) {
        any = any || formulas_.has(static_cast<std::int32_t>(type), strategy, stages);
      }
      if (any) space.strategies.push_back(strategy);
    }
    return space;
  }
  [[nodiscard]] Quickest find_quickest(std::int32_t stages, std::int32_t batch, std::int32_t microbatches) {
    const Profile& profile = formulas_.profile();
    const TableSpace& space = space_of(stages, batch / microbatches);
    const Situation at{batch, microbatches, stages, 0};
    std::vector<Quickest> of_type(profile.types.size());
    for (std::size_t type = 0; type < of_type.size(); ++type) {
      const auto number = static_cast<std::int32_t>(type);
      for (const LayerStrategy& strategy : space.strategies) {
        if (!formulas_.has(number, strategy, stages)) continue;
        const LayerCost cost = formulas_.layer(number, strategy, at, space.plain_replicas);
        of_type[type].plain = std::min(of_type[type].plain, cost.plain_ms);
        of_type[type].sync = std::min(of_type[type].sync, cost.sync_ms);
      }
    }
    Quickest all{0, 0, 0};
    for (const std::int32_t type : profile.type_of) {
      const Quickest& of = of_type[static_cast<std::size_t>(type)];
      all.plain += of.plain;
      all.sync += of.sync;
      all.longest = std::max(all.longest, of.plain);
    }
    return all;
  }

  const Formulas& formulas_;
  const LayerwiseSpace space_;
  const LayerRanges ranges_;
  std::int32_t batch_ = 0;  // of the published programs' tables
  std::map<std::pair<std::int32_t, std::int32_t>, TableSpace> spaces_;
  std::map<std::pair<std::int32_t, std::int32_t>, Quickest> quickest_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::unique_ptr<StageTable>> tables_;
};

}  // namespace trimtab::tuner::galvatron
