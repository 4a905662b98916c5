#pragma once

// What a plan's price rests on: of each measured cost that it uses, the measurement. For people, not for a search.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "native/costs/named_costs.hpp"
#include "tuner/cost_choice.hpp"

namespace trimtab::tuner {

[[nodiscard]] std::shared_ptr<const std::map<CostKey, std::string>> bases_of(const std::vector<ChosenCost>& chosen);

// A line for each: "operator_forward mlp float32 samples=4 tp=1 default: benchmark, alone, host's clock". Of a size
// between two that were measured both are named where they rest on different things.
[[nodiscard]] std::vector<std::string> basis_lines(const std::map<CostKey, std::string>& bases, const CostNames& names);

}  // namespace trimtab::tuner
