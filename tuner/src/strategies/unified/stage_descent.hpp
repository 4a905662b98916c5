#pragma once

// The best plans stage by stage, each solved again operator by operator (Evaluator::stage_proposals), the bottleneck
// first, as long as that makes a plan better.

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "plan/candidate.hpp"
#include "pricing/stage_pricer.hpp"
#include "search/strategy.hpp"
#include "strategies/aceso/bottleneck.hpp"

namespace trimtab::tuner::unified {

class StageDescent {
 public:
  explicit StageDescent(SearchRun& run) : run_(run) {}

  // From every plan on the run's shortlist that this has not begun with before, and from the best one's cuts with every
  // other microbatch. Whether the best plan is better.
  bool descend() {
    const bool solvable = run_.space().mixed_splits || run_.space().memory_switches;
    if (!solvable || run_.shortlist().empty()) return false;
    const double before = run_.shortlist().best_ms();
    for (const Plan& plan : run_.shortlist().plans()) {
      if (run_.stopped()) break;
      std::optional<Candidate> candidate = candidate_of(plan, run_.space());
      if (candidate) descend_from(std::move(*candidate));
    }
    vary_microbatch();
    return run_.shortlist().best_ms() < before;
  }

 private:
  static constexpr std::size_t kProposals = 6;  // that are priced in a plan, for one stage
  static std::vector<CandidateStage> proposals_for(Evaluator& evaluator, const Candidate& candidate,
                                                   std::size_t stage) {
    StageSolver* const solver = evaluator.stage_solver();
    return solver != nullptr ? solver->stage_proposals(candidate, stage) : std::vector<CandidateStage>{};
  }

  void descend_from(Candidate candidate) {
    Score score = run_.consider(candidate);
    bool better = true;
    while (better && !run_.stopped()) {
      if (!seen_.insert(semantic_hash_of(run_.model(), candidate)).second) return;
      better = false;
      for (const std::int32_t stage : load_of(run_.evaluator(), candidate).ranking) {
        better = improve(static_cast<std::size_t>(stage), candidate, score);
        if (better || run_.stopped()) break;
      }
    }
  }
  void vary_microbatch() {
    const std::optional<Candidate> best = candidate_of(run_.shortlist().plans().front(), run_.space());
    if (!best) return;
    for (const std::int32_t microbatch : run_.space().microbatches) {
      if (run_.stopped()) return;
      if (microbatch != best->microbatch) descend_with_microbatch(microbatch, *best);
    }
  }
  // Every stage as it is best by itself: as it was, it may not fit, or not be possible.
  void descend_with_microbatch(std::int32_t microbatch, Candidate candidate) {
    candidate.microbatch = microbatch;
    for (std::size_t stage = 0; stage < candidate.stages.size(); ++stage) {
      std::vector<CandidateStage> proposals = proposals_for(run_.evaluator(), candidate, stage);
      if (proposals.empty()) return;
      candidate.stages[stage] = std::move(proposals.front());
    }
    descend_from(std::move(candidate));
  }
  // Whether another way to run the stage makes the candidate better, which then has it.
  bool improve(std::size_t stage, Candidate& candidate, Score& score) {
    bool better = false;
    const Candidate from = candidate;
    std::size_t priced = 0;
    for (CandidateStage& proposal : proposals_for(run_.evaluator(), from, stage)) {
      if (run_.stopped() || priced == kProposals) return better;
      if (proposal == from.stages[stage]) continue;
      ++priced;
      Candidate changed = from;
      changed.stages[stage] = std::move(proposal);
      const Score found = run_.consider(changed);
      if (!found.better_than(score)) continue;
      score = found;
      candidate = std::move(changed);
      better = true;
    }
    return better;
  }

  SearchRun& run_;
  std::unordered_set<std::uint64_t> seen_;  // candidates that a descent has begun with, or come to
};

}  // namespace trimtab::tuner::unified
