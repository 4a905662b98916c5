#pragma once

// A plan with the prices of its stages and transfers, before any simulation; and which of its costs are missing or
// estimated, by name. Pure.

#include <memory>
#include <vector>

#include "cost_names.hpp"
#include "pipeline.hpp"
#include "schema/plan.hpp"
#include "stage_cost.hpp"

namespace trimtab::tuner {

struct PricedPlan {
  std::vector<StageShape> shapes;
  std::unique_ptr<SplitCatalog> catalog;
  std::vector<StageInputs> inputs;
  std::vector<StageTimes> times;
  std::vector<StageBytes> bytes;
  std::vector<double> limits;    // memory of a stage's smallest device; 0 = unlimited
  std::vector<Value> transfers;  // to the next stage; one fewer than stages
  std::vector<PipelineStage> pipeline;
  TiedReductions ties;
  RecomputeFlags recompute;
  std::int32_t microbatches = 1;
  ScheduleKind kind = ScheduleKind::k1F1B;
  CostNames names;
};

// REQUIRES: the plan is valid for the tables' model and cluster.
[[nodiscard]] PricedPlan price(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan);

[[nodiscard]] PipelineStage pipeline_stage(const StageTimes& times);

// The smallest memory of some devices; 0 = unlimited.
[[nodiscard]] double memory_limit(const Cluster& cluster, const std::vector<std::int32_t>& node_of,
                                  const std::int32_t* devices, std::int32_t count);

}  // namespace trimtab::tuner
