#pragma once

// Names the costs that a plan uses, for its price and for whoever asks what that rests on.

#include "native/costs/cost_basis.hpp"
#include "native/stage/transfer.hpp"

namespace trimtab::tuner {

void name_stage_costs(const CostTable::Tables& tables, const StageShape& shape, CostNames& names);
// What a stage in sub-batches needs besides, at half of the microbatch.
void name_sub_batch_costs(const CostTable::Tables& tables, const StageShape& half, CostNames& names);
void name_transfer_costs(const CostTable::Tables& tables, const std::vector<std::int32_t>& node_of,
                         const TransferSide& from, const TransferSide& to, double bytes_per_sample,
                         std::int32_t microbatch, CostNames& names);
void name_tied_costs(const CostTable::Tables& tables, const std::vector<TiedStage>& stages, CostNames& names);
void name_cost(Quality quality, const CostKey& key, const std::string& benchmark, CostNames& names);
void name_process_cost(const CostTable::Tables& tables, CostNames& names);

// What the native model does not price at all, each with its place: context parallelism, memory switches, ranks of a
// replica that are not consecutive, other schedules.
[[nodiscard]] std::vector<std::string> unpriced_features(const Plan& plan);

}  // namespace trimtab::tuner
