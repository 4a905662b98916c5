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

Value host_optimizer(const CostTable::Tables& tables, std::int32_t group) {
  const Value& host = tables.host_optimizer_of_group[group];
  const Value& device = tables.optimizer_of_group[group];
  const bool estimated = tables.links.allows_estimates() && device.quality != Quality::kMissing;
  return host.quality == Quality::kMissing && estimated ? Value{device.mean, 0, Quality::kEstimated} : host;
}

CostKey host_optimizer_key(const CostTable::Tables& tables, std::int32_t group) {
  CostKey key;
  key.kind = CostKind::kOptimizerStep;
  key.subject = tables.group_names[group];
  key.dtype = tables.model.dtype;
  key.placement = "host";
  return key;
}

}  // namespace trimtab::tuner::h3t
