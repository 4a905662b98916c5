#pragma once

// The chain of a model on a cluster from measured costs. Each operator is a block: half a transformer layer that ends
// in one all-reduce of its output, forward and backward, where its kind is "attention" or "mlp"; other kinds only
// compute.

#include <string>
#include <vector>

#include "base/result.hpp"
#include "papers/oases/chain.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner::oases {

// A degree t of G devices computes global_batch t / G samples at once, in two halves. It is usable where that is an
// even number, the forward and backward time of every operator and its all-reduce are measured for one half, and the
// last operator's working memory for both. Slowdowns of overlap are the largest that were measured among the usable
// degrees' groups; without any, none. Fails where no degree is usable, naming what is missing.
[[nodiscard]] Result<Chain> chain_from_costs(const Model& model, const Cluster& cluster,
                                             const std::vector<Cost>& costs);

}  // namespace trimtab::tuner::oases
