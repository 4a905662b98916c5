#pragma once

// What ranks spent in their operators' passes, by plan: a mean over the steps that they told of. Bounded by the plans
// of a launch; forgotten with them. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tuning/planning.hpp"

namespace trimtab::coordinator {

class PassTimes {
 public:
  // A step of one of so many ranks.
  void add(const std::string& plan_hash, std::int32_t rank, std::int32_t world_size, double ms);
  // What is known of the plan, written into what was measured of it.
  void tell(MeasuredPlan& plan) const;
  void clear() { plans_.clear(); }

 private:
  struct Ranks {
    std::vector<double> sum_ms;
    std::vector<std::int32_t> steps;
  };
  std::map<std::string, Ranks> plans_;
};

}  // namespace trimtab::coordinator
