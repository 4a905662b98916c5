#include "lower_bound.hpp"

#include <algorithm>
#include <limits>

#include "tables.hpp"

namespace trimtab::tuner {
namespace {

struct OperatorBounds {
  double device_ms = std::numeric_limits<double>::infinity();   // over a step, summed over the replicas
  double stage_ms = std::numeric_limits<double>::infinity();    // over a step, of one replica
  double latency_ms = std::numeric_limits<double>::infinity();  // one microbatch
};

void tighten(const OperatorCosts& of, double microbatches, double ranks, OperatorBounds& bounds) {
  if (of.forward.quality == Quality::kMissing || of.backward.quality == Quality::kMissing) return;
  const double once = of.forward.mean + of.backward.mean;
  bounds.device_ms = std::min(bounds.device_ms, microbatches * once * ranks);
  bounds.stage_ms = std::min(bounds.stage_ms, microbatches * once);
  bounds.latency_ms = std::min(bounds.latency_ms, once);
}

// Over every microbatch and split of the space that is priced for this operator's kind.
OperatorBounds bounds_of(const CostTable::Tables& tables, const PlanSpace& space, std::int32_t group) {
  OperatorBounds bounds;
  for (const std::int32_t microbatch : space.microbatches) {
    const double microbatches = tables.model.global_batch / microbatch;
    for (const std::int32_t tp : space.tensor_parallel) {
      for (std::int32_t dp = 1; dp * tp <= space.devices && dp <= microbatch; ++dp) {
        if (!divides_well(tables.model, microbatch, dp) || (dp > 1 && !space.knobs.data_parallel)) continue;
        tighten(tables.at(microbatch / dp, tp).of_group[group], microbatches, dp * tp, bounds);
        if (!space.alternate_dimensions) continue;
        tighten(tables.at(microbatch / dp, tp, true).of_group[group], microbatches, dp * tp, bounds);
      }
    }
  }
  return bounds;
}

}  // namespace

double lower_bound_ms(const NativeCostModel& cost_model, const PlanSpace& space) {
  const CostTable::Tables& tables = cost_model.table().tables();
  std::vector<OperatorBounds> of_group;
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    of_group.push_back(bounds_of(tables, space, static_cast<std::int32_t>(g)));
  }
  // An optimizer's work is shared where parameters are split or sharded.
  const bool whole_optimizer = space.tensor_parallel.size() == 1 && space.sharded.size() == 1;
  double shared = 0;
  double longest = 0;
  double latency = 0;
  for (std::int32_t i = 0; i < tables.operators(); ++i) {
    const OperatorBounds& bounds = of_group[tables.group_of[i]];
    if (bounds.device_ms == std::numeric_limits<double>::infinity()) return 0;
    const double optimizer = whole_optimizer ? tables.optimizer_sum[i + 1] - tables.optimizer_sum[i] : 0;
    shared += (bounds.device_ms + optimizer) / space.devices;
    longest = std::max(longest, bounds.stage_ms + optimizer);
    latency += bounds.latency_ms;
  }
  const double computing = std::max({shared, longest, latency}) * cost_model.calibration().computation.value;
  return computing + tables.step_overhead_ms + cost_model.calibration().fixed_ms;
}

}  // namespace trimtab::tuner
