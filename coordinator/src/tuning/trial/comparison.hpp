#pragma once

// Two plans measured in turn, in blocks of steps: how much faster is the second, and how sure is that? Pure.
//
// Two intervals, of which the wider counts. One is what the scatter of single steps says, with Welch's degrees of
// freedom (blocks.hpp). The other is what blocks say, which share what the machine did meanwhile: the variance of the
// differences of neighbouring blocks, and what the job has shown of such differences before (PairNoise), with the
// degrees of freedom that both have together. Where a job has shown nothing and one pair of blocks can show nothing,
// blocks are taken to add as much again as steps show, on two degrees. Refused: Satterthwaite's degrees over the two
// components, which a lucky pair of blocks makes those of the steps; a bootstrap over blocks, which with two or three
// of them cannot give 95 %.

#include <vector>

#include "tuning/trial/blocks.hpp"

namespace trimtab::coordinator {

struct Measured {
  double mean_ms = 0;  // trimmed
  double low_ms = 0;   // 95 %
  double high_ms = 0;
  int steps = 0;

  [[nodiscard]] double sigma_ms() const { return (high_ms - low_ms) / 3.92; }
};

inline constexpr double kUnknownRatio = 1e9;

struct Ratio {
  double ratio = 1.0;  // time of the first over time of the second: above 1, the second is faster
  double low = 1.0;    // 95 %
  double high = 1.0;

  // One step a side says nothing of how sure the ratio is.
  [[nodiscard]] bool has_interval() const { return high < kUnknownRatio; }
};

// One plan's steps; their interval is as wide as blocks scatter, too. `noise` is what the job has shown up to then,
// without these blocks. REQUIRES: at least one step.
[[nodiscard]] Measured summarize(const Blocks& blocks, const PairNoise& noise);

// As for summarize(). REQUIRES: at least one step in each. With fewer than two steps on a side the interval is
// [0, kUnknownRatio].
[[nodiscard]] Ratio compare(const Blocks& first, const Blocks& second, const PairNoise& noise);

// Two plans measured one after the other, not in turn: what passed between them is in the interval only as far as the
// job's noise says. Their own intervals count with at least one percent where nothing is known.
[[nodiscard]] Ratio compare_apart(const Measured& first, const Measured& second, const PairNoise& noise);

// Whether a plan under trial is so much slower that more steps would be waste: three steps or more, their median
// over 1.3 times the incumbent's, and not one of them as fast as the incumbent's median.
[[nodiscard]] bool surely_worse(const std::vector<double>& incumbent, const std::vector<double>& candidate);

// Whether the time that is surely saved per step, over the steps that remain, exceeds what the change of plan costs.
[[nodiscard]] bool worth_adopting(const Ratio& ratio, double incumbent_ms, double switch_ms, long remaining_steps);

// The 97.5 % quantile of Student's t.
[[nodiscard]] double student_t(double degrees_of_freedom);

}  // namespace trimtab::coordinator
