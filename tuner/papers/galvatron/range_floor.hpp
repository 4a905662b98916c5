#pragma once

// What a range of layers takes at least within a memory limit: the Lagrangian dual of choosing a way for each layer by
// itself, which is exact but for the rounding of one layer. Plain arrays.

#include <vector>

#include "papers/galvatron/layer_ranges.hpp"

namespace trimtab::tuner::galvatron {

class RangeFloor {
 public:
  struct Way {
    double time = 0;
    double memory = 0;
  };

  explicit RangeFloor(double limit) : limit_(limit) {}
  // The ways of the next kind of layer; none = there is none, and no range with such a layer can be.
  void add_kind(std::vector<Way> ways);
  // REQUIRES: after the last kind.
  void settle();
  [[nodiscard]] double least(const LayerRanges& ranges, std::int32_t number) const;

 private:
  double limit_;
  std::vector<std::vector<Way>> hulls_;  // by kind, the leanest way first
  std::vector<double> multipliers_;      // where a kind changes its way
  std::vector<double> priced_;           // [multiplier * kinds + kind]
};

}  // namespace trimtab::tuner::galvatron
