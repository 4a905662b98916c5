// Around the plans that a solver has found: finer cuts, other orders of devices.

#include <algorithm>
#include <optional>
#include <utility>

#include "strategies/unified/orders.hpp"
#include "strategies/unified/solver_search.hpp"

namespace trimtab::tuner::unified {
namespace {

constexpr std::size_t kRefined = 6;
constexpr double kFar = 1.04;
constexpr double kVaried = 1.005;
constexpr int kRefinements = 8;
constexpr std::int32_t kSettled = 6;  // operators that a cut may move by when a plan is settled

}  // namespace

void SolverSearch::refine_near() {
  for (Branch* const branch : by_promise()) {
    if (branch->best() <= kFar * progress_.best_ms()) refine(*branch);
  }
}

void SolverSearch::refine(Branch& branch) {
  std::vector<Partition> pool = branch.pool;
  if (pool.size() > kRefined) pool.resize(kRefined);
  for (const Partition& partition : pool) {
    const bool far = !branch.pricer->estimates() && branch.objective(partition) > kFar * progress_.best_ms();
    if (!far && !run_.stopped()) refine(branch, partition);
  }
}

void SolverSearch::refine(Branch& branch, Partition partition) {
  const std::vector<std::int32_t> devices = devices_of(partition);
  branch.solver->use_structure(devices);
  std::int32_t stride = cuts_.coarse_stride();
  for (int round = 0; round < kRefinements && !run_.stopped(); ++round) {
    const double before = branch.objective(partition);
    const std::int32_t finer = std::max(1, stride / 6);
    branch.solver->use_cuts(cuts_.around(partition, std::max(stride, 6), finer));
    double beat = before;
    branch.solver->search(before, kFineTolerance, [&](const Partition& plan) {
      if (branch.objective(plan) < beat && take(branch, plan)) {
        beat = branch.objective(plan);
        partition = plan;
      }
      return beat;
    });
    if (stride == 1 && beat >= before * (1 - kFineTolerance)) break;
    stride = finer;
  }
  branch.solver->use_structure({});
}

void SolverSearch::vary() {
  Branch& best = *by_promise().front();
  while (!run_.stopped() && vary(best)) {
  }
}

bool SolverSearch::vary(Branch& branch) {
  const double before = branch.best();
  const std::vector<Partition> pool = branch.pool;
  for (const Partition& from : pool) {
    if (branch.objective(from) > kVaried * before) return false;
    for (const std::vector<std::int32_t>& devices : orders_near(branch.space, devices_of(from))) {
      if (run_.stopped()) return false;
      if (branch.varied.insert(devices).second && branch.solver->may_use(devices)) try_order(branch, devices);
      if (branch.best() < before) return true;
    }
  }
  return false;
}

void SolverSearch::try_order(Branch& branch, const std::vector<std::int32_t>& devices) {
  branch.solver->use_structure(devices);
  branch.solver->use_cuts(run_.space().cuts, cuts_.layers());
  std::optional<Partition> start;
  const double beat = kVaried * branch.best();
  branch.solver->least_pace(beat, kFineTolerance, [&](const Partition& plan) {
    if (!start || branch.objective(plan) < branch.objective(*start)) start = plan;
    return beat;
  });
  if (start) refine(branch, *start);
  branch.solver->use_structure({});
}

void SolverSearch::settle() {
  Branch& branch = *by_promise().front();
  bool better = !branch.pool.empty();
  for (int round = 0; better && round < kRefinements && !run_.stopped(); ++round) {
    const double before = branch.best();
    const Partition best = branch.pool[0];
    branch.solver->use_structure(devices_of(best));
    solve(branch, cuts_.around(best, kSettled, 1), before, kExactTolerance);
    better = branch.best() < before;
  }
  branch.solver->use_structure({});
}

}  // namespace trimtab::tuner::unified
