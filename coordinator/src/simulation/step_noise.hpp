#pragma once

// How a step's time differs from the plan's true time: log-normal noise, slow drift of the machine, stragglers and
// checkpoints. Not thread-safe.

#include <cstdint>

#include "base/random.hpp"
#include "coordinator/simulation.hpp"

namespace trimtab::coordinator {

class StepNoise {
 public:
  StepNoise(const NoiseSettings& settings, std::uint64_t seed) : settings_(settings), random_(seed) {}

  // What the true time of this step is multiplied by. Each step of the job asks once, in order.
  [[nodiscard]] double factor(std::int64_t step);

 private:
  NoiseSettings settings_;
  Random random_;
  double drift_ = 0;
  bool begun_ = false;
};

}  // namespace trimtab::coordinator
