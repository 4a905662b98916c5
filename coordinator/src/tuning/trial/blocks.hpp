#pragma once

// Step times in blocks, where a block lies, and what the blocks of a job scatter by. Pure.
//
// Step times are right-skewed and now and then hit by something that is not the plan's (a snapshot, another process),
// and there are few of them. So: logarithms (a ratio becomes a difference, the skew goes), 20 % trimmed means with
// winsorised variances (Yuen 1974).
//
// Steps of one block share what the machine did meanwhile, which their own scatter does not show; how blocks differ
// does. But two plans are measured in two or three blocks each, whose one or two differences say little of their own
// spread: so what earlier blocks of the job have shown counts with them, each with its degrees of freedom (PairNoise).

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

// The variance that differences of neighbouring blocks of this job have shown.
struct PairNoise {
  double squares = 0;  // sum of squared deviations
  double degrees = 0;  // of freedom

  // Older knowledge fades once there is enough, so that a machine that becomes noisier is believed.
  void add(double more_squares, double more_degrees);
  // Neighbouring blocks of one plan: pairs whose true difference is none.
  void learn_from_one_plan(const Blocks& blocks);
  // A trial that is over.
  void learn_from_pairs(const Blocks& first, const Blocks& second);

  // What a single block scatters by, when that of two that are compared is known.
  [[nodiscard]] PairNoise of_one_block() const { return {squares / 2, degrees}; }
};

// How some like values scatter about their mean.
struct Scatter {
  explicit Scatter(const std::vector<double>& values);
  int count = 0;
  double mean = 0;
  double squares = 0;  // sum of squared deviations
  // Of freedom; 0 where one value says nothing of it.
  [[nodiscard]] double degrees() const { return count > 1 ? count - 1 : 0; }
};

// By how much a block of the first is above the one of the second in its pair, on logarithms. Pairs of which one side
// has no steps are left out.
[[nodiscard]] std::vector<double> pair_differences(const Blocks& first, const Blocks& second);

struct Spread {
  double variance = 0;  // of one value
  double degrees = 0;   // 0 = nothing is known
};
// What values scatter by and what was known before, together; the values' own alone where they say something else.
[[nodiscard]] Spread spread_of(const Scatter& own, const PairNoise& known);

}  // namespace trimtab::coordinator
