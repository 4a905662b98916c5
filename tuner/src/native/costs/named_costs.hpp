#pragma once

// Names of costs that something uses: those that are missing or estimated, each with the benchmark that would fill it,
// and the keys of those that were measured. Plain values.

#include <set>
#include <string>
#include <utility>

#include "schema/cost.hpp"

namespace trimtab::tuner {

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

}  // namespace trimtab::tuner
