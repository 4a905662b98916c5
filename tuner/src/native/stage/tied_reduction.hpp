#pragma once

// Parameters that operators of several stages share (an embedding and the head): their gradients are all-reduced over
// those stages when all of them have synchronized, before any of them runs its optimizer. Pure.

#include <cstdint>
#include <vector>

#include "native/costs/tables.hpp"
#include "native/stage/operator_price.hpp"
#include "solvers/pipeline.hpp"
#include "tuner/calibration.hpp"

namespace trimtab::tuner {

// What a reduction needs to know of a stage.
struct TiedStage {
  std::int32_t end = 0;  // one past its last operator
  std::int32_t tp = 1;
  std::int32_t node = 0;  // of its first device
};

// Appends the stages that hold one of the operators to `members`, ascending, without repeats.
void tied_members(const TiedParameters& tied, const std::vector<TiedStage>& stages, std::vector<std::int32_t>& members);
// group_size below 2 where one stage holds them all.
[[nodiscard]] CollectiveUse tied_use(const CostTable::Tables& tables, const TiedParameters& tied,
                                     const std::vector<TiedStage>& stages, const std::vector<std::int32_t>& members,
                                     std::size_t first_member);

// All of a model's, replacing what `ties` holds. Returns the worst quality of the costs used.
Quality tied_reductions(const CostTable::Tables& tables, const Calibration& calibration,
                        const std::vector<TiedStage>& stages, TiedReductions& ties);

}  // namespace trimtab::tuner
