#pragma once

// What all published profiles are made into: costs of one value, and clusters of equal nodes. Pure.

#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"

namespace trimtab::published {

inline constexpr double kMib = 1048576;
inline constexpr double kGib = 1073741824;

[[nodiscard]] Cost measured(CostKey key, std::int64_t value, CostSource source = {});
[[nodiscard]] CostKey operator_key(CostKind kind, std::string subject, std::string dtype, std::int32_t samples,
                                   std::int32_t tp);
// Of what crosses links. `group`: 0 of a transfer between two.
[[nodiscard]] CostKey link_key(CostKind kind, std::string subject, std::string dtype, std::int64_t bytes,
                               std::int32_t group, bool inter_node);
// Equal for the same costs in the same order.
[[nodiscard]] std::string digest(const std::vector<Cost>& costs);

// "n0", "n1", ...: `model` but for its name.
[[nodiscard]] std::vector<Node> equal_nodes(std::int32_t count, const Node& model);

}  // namespace trimtab::published
