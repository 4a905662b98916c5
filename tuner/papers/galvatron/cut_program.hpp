#pragma once

// The best cuts of a chain of layers into stages, exactly, when what a stage takes is dear to know: a dynamic program
// over lower bounds, of which only those on its best path are replaced by the truth, until that path is true.
//
// Pure: rows of values in, cuts out.

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "papers/galvatron/layer_ranges.hpp"
#include "strategies/galvatron/partition.hpp"

namespace trimtab::tuner::galvatron {

struct CutShape {
  const LayerRanges* ranges = nullptr;
  std::vector<std::size_t> rows;  // by stage: where its values begin; value of [begin, end): row + ranges->number()
  std::vector<bool> may_cut;      // by layer: a stage may begin with it
};

enum class CutGoal : std::uint8_t { kSum, kMost };

struct CutValues {
  std::vector<double> least;  // of what a stage takes; infinite where it cannot be
  std::vector<char> exact;    // that is what it takes
};

struct CutAnswer {
  double least = std::numeric_limits<double>::infinity();  // no cuts take less; `below` where none is below it
  Partition partition;  // that take it; empty where none is below `below`, or it was stopped
};

// `refine` makes the value at a place exact, or as high as it can; null = what the bounds alone say. `stop` is asked
// before each: once true, the answer is a bound without a partition. REQUIRES: as many layers as stages.
[[nodiscard]] CutAnswer best_cuts(const CutShape& shape, CutGoal goal, CutValues& values, double below,
                                  const std::function<void(std::size_t)>& refine,
                                  const std::function<bool()>& stop = {});

}  // namespace trimtab::tuner::galvatron
