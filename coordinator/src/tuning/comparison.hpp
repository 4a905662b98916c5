#pragma once

// Two plans measured in turn, in blocks of steps: how much faster is the second, and how sure is that? Pure.
//
// Step times are right-skewed and now and then hit by something that is not the plan's (a snapshot, another process),
// and there are few of them. So: logarithms (a ratio becomes a difference, the skew goes), 20 % trimmed means with
// winsorised variances (Yuen 1974), Welch's degrees of freedom. Steps of one block share what the machine did
// meanwhile, which the pooled variance does not see; the spread of the pairwise differences of neighbouring blocks
// does, and the larger of the two standard errors counts. A bootstrap over blocks was the alternative: with two or
// three blocks it cannot give 95 %.

#include <vector>

namespace trimtab::coordinator {

// Milliseconds of each measured step, block by block.
using Blocks = std::vector<std::vector<double>>;

struct Measured {
  double mean_ms = 0;  // trimmed
  double low_ms = 0;   // 95 %
  double high_ms = 0;
  int steps = 0;

  [[nodiscard]] double sigma_ms() const { return (high_ms - low_ms) / 3.92; }
};

struct Ratio {
  double ratio = 1.0;  // time of the first over time of the second: above 1, the second is faster
  double low = 1.0;    // 95 %
  double high = 1.0;
};

// The 20 % trimmed mean of the logarithms and its squared standard error (0 where one step says nothing of it).
struct LogCenter {
  double mean = 0;
  double error_squared = 0;
};
// REQUIRES: at least one step.
[[nodiscard]] LogCenter log_center(const std::vector<double>& steps_ms);

// REQUIRES: at least one value.
[[nodiscard]] double median(std::vector<double> values);

// REQUIRES: at least one step.
[[nodiscard]] Measured summarize(const Blocks& blocks);

// REQUIRES: at least one step in each. With fewer than two steps on a side the interval is [0, 1e9].
[[nodiscard]] Ratio compare(const Blocks& first, const Blocks& second);

// Whether a plan under trial is so much slower that more steps would be waste: three steps or more, their median
// over 1.3 times the incumbent's, and not one of them as fast as the incumbent's median.
[[nodiscard]] bool surely_worse(const std::vector<double>& incumbent, const std::vector<double>& candidate);

// Whether the time that is surely saved per step, over the steps that remain, exceeds what the change of plan costs.
[[nodiscard]] bool worth_adopting(const Ratio& ratio, double incumbent_ms, double switch_ms, long remaining_steps);

// The 97.5 % quantile of Student's t.
[[nodiscard]] double student_t(double degrees_of_freedom);

}  // namespace trimtab::coordinator
