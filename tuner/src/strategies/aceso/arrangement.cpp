#include "strategies/aceso/arrangement.hpp"

#include <utility>

#include "strategies/aceso/balance.hpp"
#include "strategies/aceso/split_moves.hpp"

namespace trimtab::tuner {
namespace {

constexpr int kRounds = 3;

Candidate with_best_splits(SearchRun& run, Candidate candidate) {
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    const CandidateStage& stage = candidate.stages[s];
    const std::vector<CandidateStage> options =
        resized(run.space(), run.model(), candidate.microbatch, stage, stage.devices);
    if (!options.empty()) choose_best(run.evaluator(), static_cast<std::int32_t>(s), options, candidate);
  }
  return candidate;
}

}  // namespace

Scored arranged(SearchRun& run, const Scored& from) {
  Scored best = from;
  Scored last = from;
  for (int round = 0; round < kRounds && !run.stopped(); ++round) {
    Candidate candidate = with_best_splits(run, last.candidate);
    if (round > 0 && candidate == last.candidate) break;
    const Score score = run.consider(candidate);
    last = rebalanced(run, {std::move(candidate), score});
    if (last.score.better_than(best.score)) best = last;
  }
  return best;
}

}  // namespace trimtab::tuner
