#pragma once

// What the published code answers, from vectors.json. Plain values.

#include <optional>
#include <string>
#include <vector>

#include "solvers/h3t/segment_simulator.hpp"

namespace trimtab::tuner::h3t::test {

struct SimulatedStep {
  Fabric fabric = Fabric::kNvlink;
  std::vector<LayerProfile> layers;
  Switching switches;
  Ticks runtime = 0;
  Bytes peak = 0;
};

struct EnumeratedCase {
  Fabric fabric = Fabric::kNvlink;
  std::vector<LayerProfile> layers;
  Bytes limit = 0;
  Ticks optimum_synchronized = 0, optimum = 0;
  std::int64_t feasible_synchronized = 0, feasible = 0;
  Ticks published_program = 0, published_greedy = 0;
  Bytes published_program_peak = 0, published_greedy_peak = 0;
};

struct LongerCase {
  Fabric fabric = Fabric::kNvlink;
  std::vector<LayerProfile> layers;
  Bytes limit = 0;
  Ticks best = 0;
  bool exact = false;
  Bytes peak = 0;
  Switching switches;
};

[[nodiscard]] const std::vector<SimulatedStep>& simulated_steps();
[[nodiscard]] const std::vector<EnumeratedCase>& enumerated_cases();
[[nodiscard]] const std::vector<LongerCase>& longer_cases();

}  // namespace trimtab::tuner::h3t::test
