#pragma once

// A plan's stages, put together layer by layer as frameworks count them: the inverse of plan_layers.hpp. Pure.

#include <functional>

#include "schema/target.hpp"

namespace trimtab {

// What one operator has; `like` has neither operators nor what is recomputed.
struct OperatorPlan {
  Segment like;
  bool recompute = false;
};

struct StageCounts {
  std::vector<std::int32_t> layers;  // of each stage, in the order of the layers
  std::int32_t groups = 1;           // of devices, in order; stage i is on group i % groups
  std::int32_t group_size = 1;
};

// What stands before the first and behind the last layer is the first and the last stage's. Neighbours of one split
// share a segment. Fails where a stage would have no operator, naming `option`, or where stages name more ranks than
// any job has. REQUIRES: the counts add up to the layers.
[[nodiscard]] Result<std::vector<Stage>> plan_stages(const Model& model, const ModelLayers& parts,
                                                     const StageCounts& counts,
                                                     const std::function<OperatorPlan(std::int32_t op)>& plan_of,
                                                     const std::string& option);

// "What the framework does not run": the exporter's complaints about what was read; nothing where it has none.
[[nodiscard]] Status check_import(const Plan& plan, const Model& model, std::string_view target,
                                  const std::string& framework);

}  // namespace trimtab
