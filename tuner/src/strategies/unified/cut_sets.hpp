#pragma once

// Which cuts the solver looks at: whole layers first, then cuts around a plan's. Plain values.

#include <cstdint>
#include <vector>

#include "plan/plan_space.hpp"
#include "schema/model.hpp"
#include "strategies/unified/partition_solver.hpp"

namespace trimtab::tuner::unified {

// What the solver may do, from the search's space.
[[nodiscard]] PartitionSpace partition_space(const PlanSpace& space, std::int32_t rounds);

class CutSets {
 public:
  CutSets(const Model& model, const PlanSpace& space);

  // Allowed begins of layers.
  [[nodiscard]] const std::vector<std::int32_t>& layers() const { return layers_; }
  // Begins of layers, or every so-many-th of them: very few, few, and then more.
  [[nodiscard]] const std::vector<std::int32_t>& first() const { return first_; }
  [[nodiscard]] const std::vector<std::int32_t>& coarse() const { return coarse_; }
  [[nodiscard]] const std::vector<std::int32_t>& finer() const { return finer_; }
  // Operators between two of the coarse ones.
  [[nodiscard]] std::int32_t coarse_stride() const { return stride_; }
  // Allowed cuts at most `reach` operators away from those of the partition, every `stride` operators.
  [[nodiscard]] std::vector<std::int32_t> around(const Partition& partition, std::int32_t reach,
                                                 std::int32_t stride) const;

 private:
  std::vector<std::int32_t> allowed_, layers_, first_, coarse_, finer_;
  std::int32_t stride_ = 1;
};

}  // namespace trimtab::tuner::unified
