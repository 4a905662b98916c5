#pragma once

// What a layer's operators sum to, and the part of its profile that follows from it: all but what it communicates.
// Pure; any thread.

#include "native/costs/tables.hpp"
#include "native/stage/stage_shape.hpp"
#include "solvers/h3t/layer_profile.hpp"

namespace trimtab::tuner::h3t {

constexpr double kTicksPerMs = 1e6;

// Bytes but where a name says otherwise, of one replica's samples.
struct LayerSums {
  double forward_ms = 0, backward_ms = 0;
  double optimizer_ms = 0;  // on the host, for all replicas' shares together
  double stored = 0, working = 0, parameters = 0;
  double widest = 0;  // of one operator alone, its input included
  double input = 0;
  double output = 0;  // that the next layer keeps as its input; 0 for the last layer
};

// Parameters, gradients and optimizer states are shared out over `replicas`.
[[nodiscard]] LayerProfile profile_of(const LayerSums& sums, const CostTable::Tables& tables, std::int32_t replicas);

// The update of a group's whole parameters on the host. One on the device stands for it, as an estimate, where
// estimates are asked for and it was measured.
[[nodiscard]] Value host_optimizer(const CostTable::Tables& tables, std::int32_t group);
[[nodiscard]] CostKey host_optimizer_key(const CostTable::Tables& tables, std::int32_t group);

}  // namespace trimtab::tuner::h3t
