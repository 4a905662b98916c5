#pragma once

// Times that no plan of a space is faster than. One per search; not thread-safe.

#include <limits>

#include "plan/candidate.hpp"

namespace trimtab::tuner {

struct BoundRequest {
  double best_ms = std::numeric_limits<double>::infinity();  // what some plan takes: no bound is above it
  bool idle_devices = false;                                 // plans may leave the last devices idle
  double effort = 1;                                         // share of the work that a bound may take; 0: very little
};

struct PlansNearBound {
  double bound_ms = 0;           // no plan of the space takes less; 0 = unknown
  std::vector<Candidate> plans;  // that such a bound comes from, the most promising first
};

class Bounds {
 public:
  virtual ~Bounds() = default;
  // No plan of the space takes less; 0 = unknown.
  [[nodiscard]] virtual double lower_bound_ms(const BoundRequest& request) = 0;
  // The same with plans near it.
  virtual PlansNearBound plans_near_bound(const BoundRequest& request) = 0;
};

}  // namespace trimtab::tuner
