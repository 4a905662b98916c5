#pragma once

// The job is begun anew on other nodes: on what is left of them, on more, or on those that it ran on before.

#include <string>

#include "tuning/launch/launch.hpp"
#include "tuning/machine.hpp"

namespace trimtab::coordinator {

class Resizing {
 public:
  Resizing(Machine& machine, Launch& launch) : m_(machine), launch_(launch) {}

  // Without the nodes that are away.
  [[nodiscard]] Next shrink();
  // With the best plan for the nodes that were offered.
  [[nodiscard]] Next grow(const PricedPlan& best);
  [[nodiscard]] Next go_back(const std::string& why);

 private:
  void begin_anew(const PlanText& plan, const Predicted& predicted);

  Machine& m_;
  Launch& launch_;
};

}  // namespace trimtab::coordinator
