#pragma once

// Which key a plan's price looks for. Plain values.

#include "schema/cost.hpp"

namespace trimtab::tuner {

// The fields that name a cost of its kind, in one form: stores may leave out what does not matter.
[[nodiscard]] inline CostKey identity(const CostKey& key) {
  CostKey same;
  same.kind = key.kind;
  same.subject = key.subject;
  if (key.kind <= CostKind::kOptimizerStep) {
    same.dtype = key.dtype;
    same.samples = key.kind == CostKind::kOptimizerStep ? 0 : key.samples;
    same.tp = key.tp;
    same.sharding = key.sharding.empty() ? "default" : key.sharding;
    if (key.placement == "host") same.placement = key.placement;
    if (key.is_launch()) same.algorithm = key.algorithm;  // in whatever way
  } else if (key.kind <= CostKind::kOverlapCommunication) {
    same.bytes = key.bytes;
    same.group_size = key.kind == CostKind::kPointToPoint ? 0 : key.group_size;
    same.placement = key.placement.empty() ? "intra_node" : key.placement;
  }
  return same;
}

}  // namespace trimtab::tuner
