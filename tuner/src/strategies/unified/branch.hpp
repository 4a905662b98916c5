#pragma once

// One microbatch size in the search of `unified`: its stages, its solver, and the best cuts that it has found for each
// sequence of devices. One per search; not thread-safe.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "strategies/unified/partition_solver.hpp"

namespace trimtab::tuner::unified {

[[nodiscard]] std::vector<std::int32_t> devices_of(const Partition& partition);

struct Branch {
  std::int32_t microbatch = 1;
  PartitionSpace space;
  std::unique_ptr<StagePricer> pricer;
  std::unique_ptr<PartitionSolver> solver;
  std::vector<Partition> pool;                 // best first
  std::set<std::vector<std::int32_t>> varied;  // orders of devices that have been tried
  double floor = 0;                            // no plan with this microbatch takes less

  [[nodiscard]] double objective(const Partition& partition) const { return partition.objective(space.rounds); }
  [[nodiscard]] double best() const {
    return pool.empty() ? std::numeric_limits<double>::infinity() : objective(pool[0]);
  }
  void keep(const Partition& partition);
  // The partition with its stages.
  [[nodiscard]] Candidate candidate(const Partition& partition);
};

}  // namespace trimtab::tuner::unified
