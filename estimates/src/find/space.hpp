#pragma once

// The plans that a search tries, without what they recompute and offload: one call for each. Pure.

#include <functional>

#include "estimates/find.hpp"

namespace trimtab::estimates {

// REQUIRES: positive figures.
void each_layout(const Machine& machine, const ModelShape& shape, const FindOptions& options,
                 const std::function<void(const UniformPlan&)>& visit);

// Layers of one chunk: what is recomputed is counted in each.
[[nodiscard]] std::int32_t layers_of_chunk(const UniformPlan& plan, const ModelShape& shape);

}  // namespace trimtab::estimates
