#pragma once

// What a plan's price rests on: of each measured cost that it uses, the measurement. For people, not for a search.

#include <memory>
#include <set>

#include "tuner/cost_choice.hpp"

namespace trimtab::tuner {

// Names of costs that something uses: those that are missing or estimated, each with the benchmark that would fill it,
// and the keys of those that were measured. Plain values.
struct CostNames {
  std::set<std::string> missing;
  std::set<std::string> estimated;
  std::set<CostKey> measured;
  std::set<std::string> slowdowns;  // measured, with what each rests on
  bool time_missing = false;        // some of those that are missing are of time: the plan has no price
  bool memory_missing = false;      // or of memory: nobody can say whether it fits

  // What stands in the way of a price.
  void miss_time(std::string name) {
    missing.insert(std::move(name));
    time_missing = true;
  }
};

[[nodiscard]] std::shared_ptr<const std::map<CostKey, std::string>> bases_of(const std::vector<ChosenCost>& chosen);

// A line for each: "operator_forward mlp float32 samples=4 tp=1 default: benchmark, alone, host's clock". Of a size
// between two that were measured both are named where they rest on different things.
[[nodiscard]] std::vector<std::string> basis_lines(const std::map<CostKey, std::string>& bases, const CostNames& names);

}  // namespace trimtab::tuner
