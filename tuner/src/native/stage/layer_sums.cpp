#include "native/stage/layer_sums.hpp"

#include <cmath>

namespace trimtab::tuner::h3t {

LayerProfile profile_of(const LayerSums& sums, const CostTable::Tables& tables, std::int32_t replicas) {
  LayerProfile of;
  of.input = whole(sums.input);
  of.forward_no_grad = of.forward_with_grad = whole(sums.forward_ms * kTicksPerMs);
  of.backward = whole(sums.backward_ms * kTicksPerMs);
  of.optimizer_step = whole(sums.optimizer_ms * kTicksPerMs / replicas);
  of.gathered_parameters = whole(sums.parameters);
  of.partitioned_parameters = (of.gathered_parameters + replicas - 1) / replicas;
  of.gathered_gradients = whole(sums.parameters * tables.gradient_factor);
  of.partitioned_gradients = (of.gathered_gradients + replicas - 1) / replicas;
  of.host_bytes = whole(sums.parameters * (1 + tables.gradient_factor + tables.optimizer_factor) / replicas);
  const Bytes kept = std::max<Bytes>(0, whole(sums.stored - sums.output));
  const Bytes passing = whole(sums.output);
  const Bytes beside = whole(sums.working);
  of.no_grad = {0, whole(sums.widest)};
  of.with_grad = {kept, kept + passing + beside};
  of.backward_change = {-kept - of.input, passing + of.input + beside};
  return of;
}

HostOptimizer host_optimizer(const CostTable::Tables& tables, std::int32_t group) {
  HostOptimizer of;
  of.value = tables.host_optimizer_of_group[group];
  const Value& device = tables.optimizer_of_group[group];
  const bool estimated = tables.links.allows_estimates() && device.quality != Quality::kMissing;
  if (of.value.quality == Quality::kMissing && estimated) of.value = {device.mean, 0, Quality::kEstimated};
  of.key.kind = CostKind::kOptimizerStep;
  of.key.subject = tables.group_names[group];
  of.key.dtype = tables.model.dtype;
  of.key.placement = "host";
  of.benchmark = "optimizer " + of.key.subject + " with placement host";
  return of;
}

}  // namespace trimtab::tuner::h3t
