#pragma once

// Which source prices what: the one place that decides it (docs/cost_model.md, "Which cost counts"). Sources are never
// averaged. Of each key one source's values are chosen; where training has seen the same thing under a condition that
// is known, and clearly differs, its values are chosen there, and what the benchmark says of other sizes of the same
// thing is corrected by the ratio. Pure; any thread.
//
// The order, first to last:
//   benchmark; benchmark on a disturbed machine; training, alone (operators) or the transfer alone (collectives,
//   sends); the same on a disturbed machine; imported; a benchmark that is taken over from near hardware
//   (near_costs.hpp); training beside others; what contains waiting, or of which no condition is known; what other
//   teams contributed (schema/sharing/contributed_source.hpp), first what ran alone; estimated.
// An import that says its condition has the place of training that says the same, where that is behind imports.
//
// A disturbed machine is told by the agent (agent/src/node), and here by a time's own values. The spread of ten values
// or more is what the first and the third quartile lie apart, over the median. They are disturbed where it is above
// kDisturbedSpread, and above kBeyondUsual times what is usual of such times on this hardware. That is the median
// spread of the class (passes, updates, what crosses links): of training for training, whose variation is the job's
// own, and the least of both for benchmarks. So what always varies is not called disturbed, nor is anything for a few
// slow values.
//
// Training corrects only with what it has measured kEnoughValues times, without waiting, alone, on a quiet machine.
// "Clearly differs": all ratios together are farther from 1 than their noise, kSystematic included, explains
// (src/native/costs/training_correction.hpp).

#include "schema/cost.hpp"

namespace trimtab::tuner {

inline constexpr std::uint64_t kEnoughValues = 10;
inline constexpr double kSystematic = 0.02;  // of a ratio's logarithm: what a mean of many values does not show
// A quarter of the values is then an eighth or more off the median, which may be a tenth off itself: as much as what a
// disturbed machine measured is taken to be (kOfDisturbed).
inline constexpr double kDisturbedSpread = 0.25;
inline constexpr double kBeyondUsual = 3;

struct ChosenCost {
  CostKey key;  // of what crosses links without algorithm, protocol and channels: as the library chose them
  Statistics statistics;
  CostSource source;
  // By which training corrects the values, and what is taken over is scaled; exp(normal) with this standard deviation.
  double factor = 1;
  double log_sigma = 0;
  // The cost of training that taught the factor.
  std::optional<CostKey> corrected_by = {};
};

// The same costs, in the same order: those whose own values say so are of a disturbed source. All of one hardware.
[[nodiscard]] std::vector<Cost> told_apart(std::vector<Cost> costs);

// In the order of keys, one of each. Slowdowns that name a kernel class, and kernels, are left out: overlap_costs.hpp
// chooses among the former.
[[nodiscard]] std::vector<ChosenCost> choose_costs(const std::vector<Cost>& costs);

// The same as plain costs, for whoever reads statistics: values are not corrected.
[[nodiscard]] std::vector<Cost> one_cost_each(const std::vector<Cost>& costs);

// Whether a benchmark need not measure the key: it has, or what was chosen is as good.
[[nodiscard]] bool is_known(const ChosenCost& cost);

// By which training corrects the passes of each operator, by its cost key: the geometric mean over all points that a
// benchmark measured. 1 where it is absent. What trials teach (calibration.hpp) is meant beside this.
[[nodiscard]] std::map<std::string, double> training_corrections(const std::vector<ChosenCost>& chosen);

// For people: "benchmark, alone", "training, alone, disturbed (the middle half of its values spans 62 %)".
[[nodiscard]] std::string describe(const CostSource& source, const Statistics& values);
// The same, and "benchmark, alone; times 1.12 (± 3 %) by training at 4 samples, tp 1".
[[nodiscard]] std::string rests_on(const ChosenCost& cost);

}  // namespace trimtab::tuner
