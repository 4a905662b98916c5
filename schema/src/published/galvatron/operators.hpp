#pragma once

// Galvatron's layers as operators of a model document, and what it measured of links as a cluster document. Pure.

#include "published/galvatron/costs.hpp"
#include "schema/cluster.hpp"
#include "schema/model.hpp"

namespace trimtab::published {

// `index`: of the layer in its model.
[[nodiscard]] Operator galvatron_operator(const GalvatronLayer& layer, std::int32_t index);

// The same model with what its layers stand between, for cost models that know operators alone: an embedding and a head
// with the published states and activations. REQUIRES: at least one layer, and model.galvatron.
[[nodiscard]] Model with_galvatron_ends(const Model& layers);

// `memory`: of each device.
[[nodiscard]] Cluster galvatron_cluster(const GalvatronTables& tables, const GalvatronProfile& profile, Bytes memory);

}  // namespace trimtab::published
