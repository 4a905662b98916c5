#pragma once

// One factor on what of stages' peaks scales, beside what does not, where peaks that were left out are foretold better
// with it. Left out is a measured plan; where one alone tells of its peaks, one of its stages: what they hold is not
// the same. Pure.

#include <cstddef>
#include <functional>
#include <vector>

#include "tuner/calibration.hpp"

namespace trimtab::tuner {

// Of one stage's peak, in bytes.
struct MemoryRow {
  double scales = 0;
  double constant = 0;
  double measured = 0;
  std::size_t observation = 0;
};

// Rows as they are under a factor: what scales may depend on it a little.
using MemoryRows = std::function<std::vector<MemoryRow>(double factor)>;

// Writes memory and memory_sigma; what `earlier` has is kept where that foretells peaks no worse than costs alone.
void learn_memory(const MemoryRows& rows_at, const Calibration& earlier, Calibration& calibration);

}  // namespace trimtab::tuner
