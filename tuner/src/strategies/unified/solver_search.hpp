#pragma once

// The partition solvers of all microbatch sizes as one search: quick plans first, finer cuts around the best of them,
// other orders of devices, and then every cut with a proof. What they find goes to the run.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "search/strategy.hpp"
#include "strategies/unified/branch.hpp"
#include "strategies/unified/cut_sets.hpp"
#include "strategies/unified/progress.hpp"

namespace trimtab::tuner::unified {

class SolverSearch {
 public:
  // Both must outlive this. Without solvers where stages are even, or devices many (kMostDevices).
  SolverSearch(SearchRun& run, Progress& progress);

  [[nodiscard]] bool empty() const { return branches_.empty(); }
  // Whether the solvers' objective is the iteration's time, and whether their stages are the best there are.
  [[nodiscard]] bool estimates() const { return empty() || branches_[0]->pricer->estimates(); }
  [[nodiscard]] bool exact() const { return !empty() && branches_[0]->pricer->exact(); }
  // Whether so many cuts are allowed that a proof takes minutes and gains nothing that is worth them.
  [[nodiscard]] bool is_very_long() const;
  // Whether it ended for the model's length.
  [[nodiscard]] bool cut_short() const { return cut_short_; }

  // Short slowest stages over whole layers and then over every cut, each count of stages by itself; then other orders
  // of devices near those. Called again after the run's limit ended it, it goes on where it was.
  void find_near_best();
  // The same where a stage has so many ways to run that it takes long to see them all. A search calls one of the two.
  void find_near_best_of_some();
  // For solvers that only estimate: whole layers, and ever finer cuts around the best plans.
  void explore();
  // Every cut, until nothing is better.
  void prove();
  // A bound where the stages' times are not the least: the same search over floors of stages.
  void bound();
  // No plan takes less; 0 where nothing is known.
  [[nodiscard]] double floor() const;

 private:
  struct Part {
    StagePricer::Effort effort;
    std::function<void()> run;
  };
  // Branches whose best is so many times the best of all.
  struct Reach {
    double from = 0, to = std::numeric_limits<double>::infinity();
  };

  void open_branches();
  // Those parts that are not done.
  void go_on(std::span<const Part> parts);
  // Those with good plans first, then those of low floors.
  [[nodiscard]] std::vector<Branch*> by_promise() const;
  // Hands a plan of the solver to the search; false where it may not be an answer.
  bool take(Branch& branch, const Partition& partition);
  // What a branch must beat to be of use: an estimate says nothing of other branches.
  [[nodiscard]] double to_beat(const Branch& branch) const;
  [[nodiscard]] std::uint64_t estimated() const;
  // Whether estimates of a very long model, which take long, have brought nothing for a while.
  [[nodiscard]] bool gave_up();
  void use(StagePricer::Effort effort);
  double solve(Branch& branch, std::vector<std::int32_t> cuts, double beat, double tolerance);
  // Plans of a short slowest stage for each count of stages, with microbatches whose best is not yet known or in reach.
  void pace(const std::vector<std::int32_t>& cuts, double tolerance, const Reach& reach);
  // All branches over these cuts, and then finer cuts for the most promising sequences of devices.
  void explore(const std::vector<std::int32_t>& cuts, double tolerance);

  // solver_refine.cpp
  void refine_near();
  void refine(Branch& branch);
  // Finer and finer cuts around a plan's, its devices as they are, until single operators make nothing better.
  void refine(Branch& branch, Partition partition);
  // Other orders of devices near that of the best plan, each with its own best cuts.
  void vary();
  // From the best orders of devices to the first one near them that beats them all; false where none does.
  bool vary(Branch& branch);
  void try_order(Branch& branch, const std::vector<std::int32_t>& devices);
  // The best cuts there are around the best plan's, to the last digit.
  void settle();

  SearchRun& run_;
  Progress& progress_;
  CutSets cuts_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::uint64_t estimated_at_best_ = 0;
  bool cut_short_ = false;
  std::size_t parts_done_ = 0;  // of finding plans near the best
};

// Of the cuts that a refined plan may still gain, relative.
inline constexpr double kFineTolerance = 1e-4;
inline constexpr double kExactTolerance = 1e-12;
// Beyond this many devices stages are uniform groups (seeds.hpp).
inline constexpr std::int32_t kMostDevices = 64;

}  // namespace trimtab::tuner::unified
