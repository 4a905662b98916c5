#pragma once

// What moves between two neighbouring operators of one stage that are split in different ways. Pure.
//
// Between operators a tensor is whole on every rank of a replica. Fewer, wider replicas after the boundary: each rank
// all-gathers the samples that it lacks in the forward pass, and its gradient only needs to be cut in the backward
// pass; more, narrower ones: the other way around. Where neither count of replicas divides the other, all ranks
// exchange in an all-to-all in both passes. An operator on its second choice has its input or its output split over tp
// where its neighbour has it whole: one all-gather over tp, priced in the backward pass.

#include <cstdint>

#include "native/stage/operator_price.hpp"

namespace trimtab::tuner {

struct LayoutChange {
  CollectiveUse forward;  // group_size 1 = nothing moves
  CollectiveUse backward;
};

// `bytes_per_sample` is the tensor at the boundary.
[[nodiscard]] LayoutChange layout_change(const SplitShape& before, bool before_alternate, const SplitShape& after,
                                         bool after_alternate, double bytes_per_sample);

// Both passes, not calibrated; infinite where a cost is missing.
[[nodiscard]] double change_ms(const LinkCosts& links, const LayoutChange& change);

}  // namespace trimtab::tuner
