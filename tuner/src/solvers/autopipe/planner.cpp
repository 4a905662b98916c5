#include "solvers/autopipe/planner.hpp"

#include <utility>

namespace trimtab::tuner::autopipe {

PartitionPlan plan_partition(const Partitions& partitions, const PlannerOptions& options) {
  PartitionPlan plan;
  const PartitionFloor floor(partitions);
  plan.lower_bound = floor.least();
  if (plan.lower_bound == kNever) return plan;
  Simulator simulator(partitions);
  const Balanced balanced(partitions);
  plan.balanced.ends = balanced.ends(partitions.blocks(), partitions.stages());
  plan.balanced.time = simulator.step(plan.balanced.ends).time;
  plan.shifted = shift_master(partitions, balanced, simulator, options.effort / 4, options.stop);
  std::vector<Ends> starts{plan.shifted.ends, floor.ends_of_least()};
  if (partitions.allowed(options.start)) starts.push_back(options.start);
  Planned best;
  for (Ends& ends : starts) {
    Planned from{std::move(ends), 0};
    from.time = simulator.time(from.ends);
    if (from.time > plan.lower_bound) {
      from = move_boundaries(partitions, floor, simulator, std::move(from), options.effort / 8, options.stop);
    }
    if (from.time < best.time) best = std::move(from);
  }
  const std::uint64_t left = options.effort - std::min(options.effort, simulator.work());
  Proof proof =
      branch_and_bound(partitions, floor, simulator, std::move(best), left, options.good_enough, options.stop);
  plan.best = std::move(proof.best);
  plan.lower_bound = proof.lower_bound;
  plan.work = simulator.work();
  return plan;
}

}  // namespace trimtab::tuner::autopipe
