#pragma once

// A job on nodes of several hardware fingerprints. Its costs are those of one of them, that of most of its devices; the
// others are told by how fast they compute beside it, which the benchmarks have measured on every node. Pure.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schema/cost.hpp"

namespace trimtab::coordinator {

// The speed at which `there` computes beside `here`, over the operators that both were measured for: 0.5 = it takes
// twice as long. Nothing where they have none in common.
[[nodiscard]] std::optional<double> measured_speed(const std::vector<Cost>& here, const std::vector<Cost>& there);

// Those of `here` without operators' times that `there` lacks: what is not known of both is yet to be measured.
[[nodiscard]] std::vector<Cost> known_of_both(std::vector<Cost> here, const std::vector<Cost>& there);

}  // namespace trimtab::coordinator
