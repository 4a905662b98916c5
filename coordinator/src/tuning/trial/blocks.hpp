#pragma once

// Step times in blocks, and where a block lies. Pure.
//
// Step times are right-skewed and now and then hit by something that is not the plan's (a snapshot, another process),
// and there are few of them. So: logarithms (a ratio becomes a difference, the skew goes), 20 % trimmed means with
// winsorised variances (Yuen 1974).

#include <vector>

namespace trimtab::coordinator {

// Milliseconds of each measured step, block by block.
using Blocks = std::vector<std::vector<double>>;

// The 20 % trimmed mean of the logarithms, its squared standard error as the scatter of the steps has it, and that
// one's degrees of freedom (both 0 where one step says nothing of it).
struct LogCenter {
  double mean = 0;
  double error_squared = 0;
  double degrees = 0;
};
// REQUIRES: at least one step.
[[nodiscard]] LogCenter log_center(const std::vector<double>& steps_ms);
// Of all steps of all blocks. REQUIRES: at least one step.
[[nodiscard]] LogCenter log_center(const Blocks& blocks);

// REQUIRES: at least one value.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace trimtab::coordinator
