#pragma once

// Switches for a pipeline's stage, for a search that asks often and about stages that look alike: what a stage takes
// under a memory limit is read from its curve of time against memory (StageCurve), and where that leaves too wide
// a gap the exact solver goes on. One per thread; remembers layers, curves and answers.

#include "solvers/h3t/relaxation.hpp"

namespace trimtab::tuner::h3t {

struct StageChoice {
  bool feasible = false;
  Solution best;    // of all microbatches; with the least memory where nothing fits
  Ticks bound = 0;  // where feasible: no synchronized switches that fit take less

  [[nodiscard]] bool proven() const { return feasible && bound == best.outcome.runtime; }
  [[nodiscard]] double gap() const {
    const auto ticks = static_cast<double>(best.outcome.runtime);
    return ticks > 0 ? (ticks - static_cast<double>(bound)) / ticks : 0;
  }
};

class StageSwitches {
 public:
  // Answers are at most `gap` above their bound, as a share of the time, unless the exact solver ends early: by its
  // labels, far fewer than it has alone, or by `stop`. What `stop` cut short is not remembered.
  explicit StageSwitches(double gap = 0.01) : gap_(gap) {}
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }

  // Valid until the next call. REQUIRES: layers that can be, counts of 1 or more.
  [[nodiscard]] const StageChoice& choose(const Problem& problem);
  // What all choices so far have cost, as evaluations of stages: one for each path over a stage's layers that was
  // looked for, and for as many labels of the exact solver as a path has layers; and for a layer between neighbours
  // that was new, one for each of its combinations. What was remembered costs nothing.
  [[nodiscard]] std::uint64_t evaluations() const { return evaluations_; }

 private:
  struct Remembered;
  [[nodiscard]] Remembered& remembered(const Problem& problem);
  [[nodiscard]] StageChoice narrowed(const Problem& problem, StageChoice choice);

  double gap_;
  std::function<bool()> stop_;
  std::uint64_t evaluations_ = 0;
  TransitionTable table_;
  std::vector<std::int64_t> key_;  // the one looked up
  StageChoice unfinished_;         // the latest answer that `stop` cut short
  std::map<std::vector<std::int64_t>, std::shared_ptr<Remembered>> stages_;
};

}  // namespace trimtab::tuner::h3t
