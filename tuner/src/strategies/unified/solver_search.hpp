#pragma once

// The partition solvers of all microbatch sizes as one search: quick plans first, finer cuts around the best of them,
// other orders of devices, and then every cut with a proof. What they find goes to the run.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search/strategy.hpp"
#include "strategies/unified/branch.hpp"
#include "strategies/unified/progress.hpp"
#include "strategies/unified/seeds.hpp"

namespace trimtab::tuner::unified {

class SolverSearch {
 public:
  // Both must outlive this. Without solvers where stages are even, or devices many (kMostDevices).
  SolverSearch(SearchRun& run, Progress& progress) : run_(run), progress_(progress), cuts_(run.model(), run.space()) {
    open_branches();
  }

  [[nodiscard]] bool empty() const { return branches_.empty(); }
  // Whether the solvers' objective is the iteration's time, and whether their stages are the best there are.
  [[nodiscard]] bool estimates() const { return empty() || branches_[0]->pricer->estimates(); }
  [[nodiscard]] bool exact() const { return !empty() && branches_[0]->pricer->exact(); }
  // Whether so many cuts are allowed that a proof takes minutes and gains nothing that is worth them.
  [[nodiscard]] bool is_very_long() const { return run_.space().cuts.size() > kMostCuts; }
  // Whether it ended for the model's length.
  [[nodiscard]] bool cut_short() const { return cut_short_; }

  // Short slowest stages over whole layers and then over every cut, each count of stages by itself; then other orders
  // of devices near those. Called again after the run's limit ended it, it goes on where it was.
  void find_near_best() {
    using enum StagePricer::Effort;
    go_on({{kFull, kPace, &cuts_.coarse(), kCoarseTolerance, {}},
           {kFull, kRefine},
           {kFull, kPace, &run_.space().cuts, kFinerTolerance, {0, kFar}},
           {kFull, kRefine},
           {kFull, kPace, &run_.space().cuts, kFineTolerance, {0, kFar}},
           {kFull, kRefine},
           {kFull, kVary},
           {kFull, kSettle}});
  }
  // The same where a stage has so many ways to run that it takes long to see them all. A search calls one of the two.
  void find_near_best_of_some() {
    using enum StagePricer::Effort;
    // Microbatches that one split for each stage leaves far behind seldom end near the best, and take as long: late.
    go_on({{kLeast, kPace, &cuts_.coarse(), kCoarseTolerance, {}},
           {kLeast, kRefine},
           {kLess, kPace, &cuts_.coarse(), kCoarseTolerance, {0, kFarOfSome}},
           {kLess, kRefine},
           {kFull, kRefine},
           {kLess, kPace, &cuts_.coarse(), kCoarseTolerance, {kFarOfSome}},
           {kLess, kPace, &run_.space().cuts, kFineTolerance, {0, kFarOfSome}},
           {kLess, kRefine},
           {kLess, kVary},
           {kFull, kRefine},
           {kFull, kVary}});
  }
  // For solvers that only estimate: whole layers, and ever finer cuts around the best plans.
  void explore() {
    explore(cuts_.first(), kCoarseTolerance);
    explore(cuts_.coarse(), kCoarseTolerance);
    explore(cuts_.finer(), kFinerTolerance);
  }
  // Every cut, until nothing is better.
  void prove() {
    for (Branch* const branch : by_promise()) {
      if (run_.stopped()) return;
      if (branch->floor >= progress_.best_ms()) continue;
      const bool exact = branch->pricer->exact();
      const double floor =
          solve(*branch, run_.space().cuts, progress_.best_ms(), exact ? kExactTolerance : kFineTolerance);
      if (exact) branch->floor = std::max(branch->floor, floor);
    }
  }
  // A bound where the stages' times are not the least: the same search over floors of stages.
  void bound() {
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
  // No plan takes less; 0 where nothing is known.
  [[nodiscard]] double floor() const {
    if (branches_.size() < run_.space().microbatches.size()) return 0;
    double bound = progress_.best_ms();
    for (const auto& branch : branches_) bound = std::min(bound, branch->pricer->estimates() ? 0 : branch->floor);
    return bound;
  }

 private:
  static constexpr std::size_t kMostCuts = 8000;
  static constexpr std::uint64_t kPatience =
      1000;  // estimates of stages of so long a model, since the last better plan
  static constexpr double kFar = 1.04;
  static constexpr double kFarOfSome = 1.1;  // where more ways to run a stage may still bring a plan nearer
  static constexpr double kCoarseTolerance = 5e-3;
  static constexpr double kFinerTolerance = 1e-3;
  static constexpr double kFineTolerance = 1e-4;  // of the cuts that a refined plan may still gain, relative
  static constexpr double kExactTolerance = 1e-12;
  static constexpr double kBoundTolerance = 1e-3;
  static constexpr std::size_t kRefined = 6;
  static constexpr double kVaried = 1.005;
  static constexpr int kRefinements = 8;
  static constexpr std::int32_t kSettled = 6;  // operators that a cut may move by when a plan is settled

  // Branches whose best is so many times the best of all.
  struct Reach {
    double from = 0, to = std::numeric_limits<double>::infinity();
  };
  enum class Means : std::uint8_t { kPace, kRefine, kVary, kSettle };
  using enum Means;
  struct Part {
    StagePricer::Effort effort;
    Means means;
    const std::vector<std::int32_t>* cuts = nullptr;  // of kPace, as what follows
    double tolerance = 0;
    Reach reach = {};
  };

  void open_branches() {
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
  // Those parts that are not done.
  void go_on(const std::vector<Part>& parts) {
    for (; parts_done_ < parts.size(); ++parts_done_) {
      const Part& part = parts[parts_done_];
      use(part.effort);
      if (part.means == kPace) pace(*part.cuts, part.tolerance, part.reach);
      if (part.means == kRefine) refine_near();
      if (part.means == kVary) vary();
      if (part.means == kSettle) settle();
      if (run_.stopped()) return;
    }
  }
  // Those with good plans first, then those of low floors.
  [[nodiscard]] std::vector<Branch*> by_promise() const {
    std::vector<Branch*> order;
    for (const auto& branch : branches_) order.push_back(branch.get());
    std::stable_sort(order.begin(), order.end(), [](const Branch* a, const Branch* b) {
      return a->best() != b->best() ? a->best() < b->best() : a->floor < b->floor;
    });
    return order;
  }
  // Hands a plan of the solver to the search; false where it may not be an answer.
  bool take(Branch& branch, const Partition& partition) {
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
  // What a branch must beat to be of use: an estimate says nothing of other branches.
  [[nodiscard]] double to_beat(const Branch& branch) const {
    return branch.pricer->estimates() ? branch.best() : progress_.best_ms();
  }
  [[nodiscard]] std::uint64_t estimated() const {
    std::uint64_t prices = 0;
    for (const auto& branch : branches_) prices += branch->solver->prices();
    return prices;
  }
  // Whether estimates of a very long model, which take long, have brought nothing for a while.
  [[nodiscard]] bool gave_up() {
    if (branches_.empty() || !branches_[0]->pricer->estimates() || !is_very_long()) return false;
    cut_short_ = cut_short_ || estimated() - estimated_at_best_ > kPatience;
    return cut_short_;
  }
  void use(StagePricer::Effort effort) {
    for (const auto& branch : branches_) branch->pricer->use(effort);
  }
  double solve(Branch& branch, std::vector<std::int32_t> cuts, double beat, double tolerance) {
    branch.solver->use_cuts(std::move(cuts));
    return branch.solver->search(beat, tolerance, [&](const Partition& plan) {
      if (take(branch, plan)) beat = std::min(beat, branch.objective(plan));
      return beat;
    });
  }
  // Plans of a short slowest stage for each count of stages, with microbatches whose best is not yet known or in reach.
  void pace(const std::vector<std::int32_t>& cuts, double tolerance, const Reach& reach) {
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
  // All branches over these cuts, and then finer cuts for the most promising sequences of devices.
  void explore(const std::vector<std::int32_t>& cuts, double tolerance) {
    if (cuts.empty()) return;
    for (Branch* const branch : by_promise()) {
      if (run_.stopped() || gave_up()) return;
      if (branch->floor < progress_.best_ms()) solve(*branch, cuts, to_beat(*branch), tolerance);
    }
    for (Branch* const branch : by_promise()) refine(*branch);
  }

  void refine_near() {
    for (Branch* const branch : by_promise()) {
      if (branch->best() <= kFar * progress_.best_ms()) refine(*branch);
    }
  }
  void refine(Branch& branch) {
    std::vector<Partition> pool = branch.pool;
    if (pool.size() > kRefined) pool.resize(kRefined);
    for (const Partition& partition : pool) {
      const bool far = !branch.pricer->estimates() && branch.objective(partition) > kFar * progress_.best_ms();
      if (!far && !run_.stopped()) refine(branch, partition);
    }
  }
  // Finer and finer cuts around a plan's, its devices as they are, until single operators make nothing better.
  void refine(Branch& branch, Partition partition) {
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
  // Other orders of devices near that of the best plan, each with its own best cuts.
  void vary() {
    Branch& best = *by_promise().front();
    while (!run_.stopped() && vary(best)) {
    }
  }
  // From the best orders of devices to the first one near them that beats them all; false where none does.
  bool vary(Branch& branch) {
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
  void try_order(Branch& branch, const std::vector<std::int32_t>& devices) {
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
  // The best cuts there are around the best plan's, to the last digit.
  void settle() {
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

  SearchRun& run_;
  Progress& progress_;
  CutSets cuts_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::uint64_t estimated_at_best_ = 0;
  bool cut_short_ = false;
  std::size_t parts_done_ = 0;  // of finding plans near the best
};

}  // namespace trimtab::tuner::unified
