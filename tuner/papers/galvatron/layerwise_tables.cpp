#include "papers/galvatron/layerwise_tables.hpp"

#include <algorithm>

namespace trimtab::tuner::galvatron {

LayerwiseTables::LayerwiseTables(const Formulas& formulas, const LayerwiseSpace& space)
    : formulas_(formulas), space_(space), ranges_(formulas.profile().type_of) {}

bool LayerwiseTables::allows(const LayerStrategy& strategy, std::int32_t microbatch) const {
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
TableSpace LayerwiseTables::make_space(std::int32_t stages, std::int32_t microbatch) const {
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

const TableSpace& LayerwiseTables::space_of(std::int32_t stages, std::int32_t microbatch) {
  const auto [at, fresh] = spaces_.try_emplace({stages, microbatch});
  if (fresh) at->second = make_space(stages, microbatch);
  return at->second;
}

const LayerwiseTables::Quickest& LayerwiseTables::quickest(std::int32_t stages, std::int32_t batch,
                                                           std::int32_t microbatches) {
  const auto [at, fresh] = quickest_.try_emplace({stages, batch / microbatches});
  if (fresh) at->second = find_quickest(stages, batch, microbatches);
  return at->second;
}

LayerwiseTables::Quickest LayerwiseTables::find_quickest(std::int32_t stages, std::int32_t batch,
                                                         std::int32_t microbatches) {
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

StageTable& LayerwiseTables::table(std::int32_t stages, std::int32_t batch, std::int32_t microbatches) {
  // By the paper's equations layers know the size of a microbatch and how many are in flight, nothing else of a batch.
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

}  // namespace trimtab::tuner::galvatron
