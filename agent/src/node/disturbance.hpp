#pragma once

// What disturbed this node while something was measured (schema/cost_source.hpp). A plain value.

#include "schema/cost_source.hpp"

namespace trimtab::agent {

struct Disturbance {
  bool others = false;  // took the machine's processors (others_use.hpp)
  bool gpus = false;    // ran below their usual clock (gpu_clocks.hpp)

  // Whether what this clock has timed is disturbed. A pass on a device is long for the device's clock, whoever timed
  // it.
  [[nodiscard]] bool of(CostSource::Clock clock) const {
    return (others && clock != CostSource::Clock::kDevice) || (gpus && clock != CostSource::Clock::kNotSaid);
  }
};

}  // namespace trimtab::agent
