#pragma once

// How a step's time differs from the plan's true time: log-normal noise, slow drift of the machine, stragglers and
// checkpoints. Not thread-safe.

#include <cstdint>

#include "base/random.hpp"
#include "coordinator/simulation.hpp"

namespace trimtab::coordinator {

class StepNoise {
 public:
  StepNoise(const NoiseSettings& settings, std::uint64_t seed)
      : settings_(settings), random_(seed), of_ranks_(seed ^ 0x9a55e5) {}

  // What the true time of this step is multiplied by. Each step of the job asks once, in order.
  [[nodiscard]] double factor(std::int64_t step);
  // What is multiplied to the time that one of so many ranks spent in its operators in the step that was last asked
  // for: the machine's drift, the rank's own noise, and now and then it is the slow one.
  [[nodiscard]] double rank_factor(std::int32_t ranks);

 private:
  NoiseSettings settings_;
  Random random_;
  Random of_ranks_;  // apart, so that steps are the same whoever is asked about
  double drift_ = 0;
  bool begun_ = false;
};

}  // namespace trimtab::coordinator
