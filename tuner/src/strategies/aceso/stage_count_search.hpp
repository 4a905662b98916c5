#pragma once

// The search for one count of stages: alleviation from a start, again from perturbed cuts once it has converged, then
// op-level fine-tuning. Goes on in slices.

#include "strategies/aceso/alleviation.hpp"

namespace trimtab::tuner {

class StageCountSearch {
 public:
  StageCountSearch(SearchRun& run, Scored start, std::uint64_t seed);

  void advance(std::uint64_t evaluations);
  // Ends a search that falls so far short of `best_ms` that a few more gains like its last one would not reach it.
  void abandon_unless_promising(double best_ms);

  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] const Scored& best() const { return best_; }
  [[nodiscard]] std::uint64_t evaluations() const { return evaluations_; }

 private:
  void restart();
  [[nodiscard]] Candidate perturbed(const Candidate& from);

  SearchRun& run_;
  Random random_;
  Alleviation alleviation_;
  Scored best_;
  int restarts_ = 0;
  int slices_ = 0;
  double last_gain_ms_ = 0;
  std::uint64_t evaluations_ = 0;
  bool over_ = false;
};

}  // namespace trimtab::tuner
