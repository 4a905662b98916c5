#include "strategies/unified/solver_search.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace trimtab::tuner::unified {
namespace {

constexpr std::size_t kMostCuts = 8000;
constexpr std::uint64_t kPatience = 1000;  // estimates of stages of so long a model, since the last better plan
constexpr double kFar = 1.04;
constexpr double kFarOfSome = 1.1;  // where more ways to run a stage may still bring a plan nearer
constexpr double kCoarseTolerance = 5e-3;
constexpr double kFinerTolerance = 1e-3;
constexpr double kBoundTolerance = 1e-3;

}  // namespace

SolverSearch::SolverSearch(SearchRun& run, Progress& progress)
    : run_(run), progress_(progress), cuts_(run.model(), run.space()) {
  open_branches();
}

bool SolverSearch::is_very_long() const {
  return run_.space().cuts.size() > kMostCuts;
}

double SolverSearch::to_beat(const Branch& branch) const {
  return branch.pricer->estimates() ? branch.best() : progress_.best_ms();
}

void SolverSearch::explore() {
  explore(cuts_.first(), kCoarseTolerance);
  explore(cuts_.coarse(), kCoarseTolerance);
  explore(cuts_.finer(), kFinerTolerance);
}

double SolverSearch::floor() const {
  if (branches_.size() < run_.space().microbatches.size()) return 0;
  double bound = progress_.best_ms();
  for (const auto& branch : branches_) bound = std::min(bound, branch->pricer->estimates() ? 0 : branch->floor);
  return bound;
}

std::uint64_t SolverSearch::estimated() const {
  std::uint64_t prices = 0;
  for (const auto& branch : branches_) prices += branch->solver->prices();
  return prices;
}

bool SolverSearch::gave_up() {
  if (branches_.empty() || !branches_[0]->pricer->estimates() || !is_very_long()) return false;
  cut_short_ = cut_short_ || estimated() - estimated_at_best_ > kPatience;
  return cut_short_;
}

void SolverSearch::open_branches() {
  StagePricers* const pricers = run_.evaluator().stage_pricers();
  if (pricers == nullptr || !run_.space().knobs.uneven_stages) return;
  if (run_.space().devices > kMostDevices || run_.space().stages_max < run_.space().stages_min) return;
  for (const std::int32_t microbatch : run_.space().microbatches) {
    auto branch = std::make_unique<Branch>();
    branch->microbatch = microbatch;
    branch->pricer = pricers->stage_pricer(microbatch);
    if (!branch->pricer) continue;
    branch->space = partition_space(run_.space(), run_.model().global_batch / microbatch - 1);
    branch->solver = std::make_unique<PartitionSolver>(branch->space, *branch->pricer,
                                                       [this] { return run_.stopped() || gave_up(); });
    branch->floor = branch->solver->simple_floor();
    branches_.push_back(std::move(branch));
  }
}

std::vector<Branch*> SolverSearch::by_promise() const {
  std::vector<Branch*> order;
  for (const auto& branch : branches_) order.push_back(branch.get());
  std::stable_sort(order.begin(), order.end(), [](const Branch* a, const Branch* b) {
    return a->best() != b->best() ? a->best() < b->best() : a->floor < b->floor;
  });
  return order;
}

bool SolverSearch::take(Branch& branch, const Partition& partition) {
  const Candidate candidate = branch.candidate(partition);
  const double before = progress_.best_ms();
  const Score score = run_.consider(candidate);
  if (progress_.best_ms() < before) {
    estimated_at_best_ = estimated();
    progress_.record("partition at microbatch " + std::to_string(branch.microbatch), before, candidate);
  }
  if (score.fits()) branch.keep(partition);
  return score.fits();
}

void SolverSearch::use(StagePricer::Effort effort) {
  for (const auto& branch : branches_) branch->pricer->use(effort);
}

double SolverSearch::solve(Branch& branch, std::vector<std::int32_t> cuts, double beat, double tolerance) {
  branch.solver->use_cuts(std::move(cuts));
  return branch.solver->search(beat, tolerance, [&](const Partition& plan) {
    if (take(branch, plan)) beat = std::min(beat, branch.objective(plan));
    return beat;
  });
}

void SolverSearch::pace(const std::vector<std::int32_t>& cuts, double tolerance, const Reach& reach) {
  for (Branch* const branch : by_promise()) {
    if (run_.stopped()) return;
    const bool near = reach.from > 0 && branch->best() <= reach.from * progress_.best_ms();
    const bool far = branch->best() > reach.to * progress_.best_ms() && !branch->pool.empty();
    if (near || far || branch->floor >= progress_.best_ms()) continue;
    branch->solver->use_cuts(cuts, cuts_.layers());
    branch->solver->least_pace(progress_.best_ms(), tolerance, [&](const Partition& plan) {
      take(*branch, plan);
      return progress_.best_ms();
    });
  }
}

void SolverSearch::explore(const std::vector<std::int32_t>& cuts, double tolerance) {
  if (cuts.empty()) return;
  for (Branch* const branch : by_promise()) {
    if (run_.stopped() || gave_up()) return;
    if (branch->floor < progress_.best_ms()) solve(*branch, cuts, to_beat(*branch), tolerance);
  }
  for (Branch* const branch : by_promise()) refine(*branch);
}

void SolverSearch::go_on(std::span<const Part> parts) {
  for (; parts_done_ < parts.size(); ++parts_done_) {
    use(parts[parts_done_].effort);
    parts[parts_done_].run();
    if (run_.stopped()) return;
  }
}

void SolverSearch::find_near_best() {
  using enum StagePricer::Effort;
  const std::vector<std::int32_t>& all = run_.space().cuts;
  const Part parts[] = {
      {kFull, [this] { pace(cuts_.coarse(), kCoarseTolerance, {}); }},
      {kFull, [this] { refine_near(); }},
      {kFull,
       [&] {
         pace(all, kFinerTolerance, {0, kFar});
       }},
      {kFull, [this] { refine_near(); }},
      {kFull,
       [&] {
         pace(all, kFineTolerance, {0, kFar});
       }},
      {kFull, [this] { refine_near(); }},
      {kFull, [this] { vary(); }},
      {kFull, [this] { settle(); }},
  };
  go_on(parts);
}

void SolverSearch::find_near_best_of_some() {
  using enum StagePricer::Effort;
  const std::vector<std::int32_t>& all = run_.space().cuts;
  // Microbatches that one split for each stage leaves far behind seldom end near the best, and take as long: late.
  const Part parts[] = {
      {kLeast, [this] { pace(cuts_.coarse(), kCoarseTolerance, {}); }},
      {kLeast, [this] { refine_near(); }},
      {kLess,
       [this] {
         pace(cuts_.coarse(), kCoarseTolerance, {0, kFarOfSome});
       }},
      {kLess, [this] { refine_near(); }},
      {kFull, [this] { refine_near(); }},
      {kLess, [this] { pace(cuts_.coarse(), kCoarseTolerance, {kFarOfSome}); }},
      {kLess,
       [&] {
         pace(all, kFineTolerance, {0, kFarOfSome});
       }},
      {kLess, [this] { refine_near(); }},
      {kLess, [this] { vary(); }},
      {kFull, [this] { refine_near(); }},
      {kFull, [this] { vary(); }},
  };
  go_on(parts);
}

void SolverSearch::prove() {
  for (Branch* const branch : by_promise()) {
    if (run_.stopped()) return;
    if (branch->floor >= progress_.best_ms()) continue;
    const bool exact = branch->pricer->exact();
    const double floor =
        solve(*branch, run_.space().cuts, progress_.best_ms(), exact ? kExactTolerance : kFineTolerance);
    if (exact) branch->floor = std::max(branch->floor, floor);
  }
}

void SolverSearch::bound() {
  for (Branch* const branch : by_promise()) {
    if (run_.stopped()) return;
    if (branch->pricer->exact() || branch->floor >= progress_.best_ms()) continue;
    const std::unique_ptr<StagePricer> floors = run_.evaluator().stage_pricers()->floor_pricer(branch->microbatch);
    if (!floors) continue;
    PartitionSolver solver(branch->space, *floors, [this] { return run_.stopped(); });
    solver.use_cuts(run_.space().cuts);
    double least = progress_.best_ms();
    const double floor = solver.search(least, kBoundTolerance, [&](const Partition& plan) {
      return least = std::min(least, plan.objective(branch->space.rounds));
    });
    branch->floor = std::max(branch->floor, floor);
  }
}

}  // namespace trimtab::tuner::unified
