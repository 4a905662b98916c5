#pragma once

// Algorithm 1 of AutoPipe: the partition whose heaviest stage is lightest, for every prefix of the blocks and every
// number of stages at once, under the stages' memory. Immutable once built.

#include <cstdint>
#include <vector>

#include "solvers/autopipe/partition.hpp"

namespace trimtab::tuner::autopipe {

class Balanced {
 public:
  // O(blocks x stages) where nothing limits memory, up to O(blocks^2 x stages) where it does. `partitions` must outlive
  // this.
  explicit Balanced(const Partitions& partitions);

  // The heaviest stage of the best way to cut blocks [0, blocks) into the first `stages` stages; kNever where none
  // fits.
  [[nodiscard]] double heaviest(std::int32_t blocks, std::int32_t stages) const {
    return least_[static_cast<std::size_t>(stages) * (partitions_.blocks() + 1) + blocks];
  }
  // Its ends, the last stage as large as it may be, then the one before, and so on. REQUIRES: heaviest() is finite.
  [[nodiscard]] Ends ends(std::int32_t blocks, std::int32_t stages) const;

 private:
  [[nodiscard]] double with_last(std::int32_t blocks, std::int32_t stages, std::int32_t begin) const;

  const Partitions& partitions_;
  std::vector<double> least_;  // [stages][blocks]
};

}  // namespace trimtab::tuner::autopipe
