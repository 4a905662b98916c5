#pragma once

// The best plans stage by stage, each solved again operator by operator (Evaluator::stage_proposals), the bottleneck
// first, as long as that makes a plan better.

#include <cstdint>
#include <unordered_set>

#include "search/strategy.hpp"

namespace trimtab::tuner::unified {

class StageDescent {
 public:
  explicit StageDescent(SearchRun& run) : run_(run) {}

  // From every plan on the run's shortlist that this has not begun with before, and from the best one's cuts with every
  // other microbatch. Whether the best plan is better.
  bool descend();

 private:
  void descend_from(Candidate candidate);
  void vary_microbatch();
  void descend_with_microbatch(std::int32_t microbatch, Candidate candidate);
  // Whether another way to run the stage makes the candidate better, which then has it.
  bool improve(std::size_t stage, Candidate& candidate, Score& score);

  SearchRun& run_;
  std::unordered_set<std::uint64_t> seen_;  // candidates that a descent has begun with, or come to
};

}  // namespace trimtab::tuner::unified
