#pragma once

// The names of costs that a plan uses and that are missing or estimated, each with the benchmark that would fill it;
// and the keys of all that it uses, for whoever asks what a price rests on.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "native/stage/stage_shape.hpp"
#include "native/stage/tied_reduction.hpp"
#include "native/stage/transfer.hpp"
#include "schema/cost.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

struct CostNames {
  std::set<std::string> missing;
  std::set<std::string> estimated;
  std::set<CostKey> measured;
  std::set<std::string> slowdowns;  // measured, with what each rests on
  bool time_missing = false;        // some of those that are missing are of time: the plan has no price
  bool memory_missing = false;      // or of memory: nobody can say whether it fits

  // What stands in the way of a price.
  void miss_time(std::string name) {
    missing.insert(std::move(name));
    time_missing = true;
  }
};

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
