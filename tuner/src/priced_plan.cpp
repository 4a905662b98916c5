#include "priced_plan.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "recompute_choice.hpp"

namespace trimtab::tuner {
namespace {

StageShape shape_of(const CostTable::Tables& tables, const Plan& plan, std::size_t s) {
  const Stage& stage = plan.stages[s];
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  StageShape shape;
  shape.operators = stage.operators();
  shape.dp = stage.segments.front().dp;
  shape.samples = plan.microbatch / shape.dp;
  shape.placement = placement_of(tables.cluster, stage.devices);
  shape.in_flight = in_flight(plan.schedule.kind, stages, static_cast<std::int32_t>(s), plan.microbatches());
  TRIMTAB_ASSERT(tables.find(shape.samples) != nullptr, "a plan must be valid before it is priced");
  TRIMTAB_ASSERT(shape.dp == 1 || tables.find_sync(shape.dp, shape.placement) != nullptr,
                 "a plan must be valid before it is priced");
  return shape;
}

void price_stage(const CostTable::Tables& tables, const Calibration& calibration, const Stage& stage,
                 PricedPlan& priced) {
  for (const Segment& segment : stage.segments) set_flags(segment.recompute, segment.operators, priced.recompute);
  const StageShape& shape = priced.shapes.back();
  const StageTimes times = stage_times(tables, calibration, shape, priced.recompute);
  priced.times.push_back(times);
  priced.bytes.push_back(stage_bytes(tables, calibration, shape, priced.recompute));
  priced.limits.push_back(memory_limit(tables.cluster, stage.devices));
  priced.pipeline.push_back({times.forward, times.backward_pass(), times.last_backward, times.tail(), 0});
}

}  // namespace

double memory_limit(const Cluster& cluster, const std::vector<std::int32_t>& devices) {
  Bytes smallest = 0;
  for (const std::int32_t device : devices) {
    const Bytes bytes = cluster.memory_of(device);
    if (bytes > 0 && (smallest == 0 || bytes < smallest)) smallest = bytes;
  }
  return static_cast<double>(smallest);
}

PricedPlan price(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan) {
  PricedPlan priced;
  priced.microbatches = plan.microbatches();
  priced.kind = plan.schedule.kind == ScheduleKind::kGPipe ? ScheduleKind::kGPipe : ScheduleKind::k1F1B;
  priced.recompute.assign(static_cast<std::size_t>(tables.operators()), 0);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    priced.shapes.push_back(shape_of(tables, plan, s));
    price_stage(tables, calibration, plan.stages[s], priced);
    name_stage_costs(tables, priced.shapes.back(), priced.names);
  }
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    const std::vector<std::int32_t>& from = plan.stages[s].devices;
    const std::vector<std::int32_t>& to = plan.stages[s + 1].devices;
    const double output = tables.output[priced.shapes[s].operators.end - 1];
    Value value = transfer_time(tables, from, to, output, plan.microbatch);
    if (value.quality != Quality::kMeasured) {
      name_transfer_costs(tables, from, to, output, plan.microbatch, priced.names);
    }
    value.mean *= calibration.communication.value;
    value.error *= calibration.communication.value;
    priced.pipeline[s].transfer = value.mean;
    priced.transfers.push_back(value);
  }
  name_process_cost(tables, priced.names);
  name_unpriced_features(tables.model, plan, priced.names);
  return priced;
}

}  // namespace trimtab::tuner
