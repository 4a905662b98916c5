#pragma once

// Every cost model by name: the native one, and those of the papers.

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

// Builds a cost model by name from measured costs. Fails on an unknown name (naming the known ones) and where the costs
// do not fit the model at all. `calibration` is for the native model: a paper's formulas are taken as they are.
[[nodiscard]] Result<std::unique_ptr<CostModel>> make_cost_model(std::string_view name, const Model& model,
                                                                 const Cluster& cluster, const std::vector<Cost>& costs,
                                                                 CostTableOptions options = {},
                                                                 const Calibration& calibration = {});
[[nodiscard]] std::vector<std::string_view> cost_models();

}  // namespace trimtab::tuner
