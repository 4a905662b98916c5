#include "strategies/aceso/stage_count_search.hpp"

#include <utility>

#include "strategies/aceso/fine_tuning.hpp"
#include "strategies/aceso/operator_moves.hpp"

namespace trimtab::tuner {
namespace {

constexpr int kRestarts = 2;
constexpr int kPatience = 2;         // slices before a search may be abandoned
constexpr double kFurtherGains = 3;  // like the last one, that a search is trusted with

}  // namespace

StageCountSearch::StageCountSearch(SearchRun& run, Scored start, std::uint64_t seed)
    : run_(run), random_(seed), alleviation_(run, seed ^ 0x9e3779b97f4a7c15U), best_(std::move(start)) {
  alleviation_.begin(best_);
}

void StageCountSearch::advance(std::uint64_t evaluations) {
  const std::uint64_t begin = run_.evaluator().evaluations();
  const Score before = best_.score;
  alleviation_.advance(evaluations);
  if (alleviation_.best().score.better_than(best_.score)) best_ = alleviation_.best();
  if (alleviation_.converged()) restart();
  ++slices_;
  last_gain_ms_ = before.fits() ? before.ms - best_.score.ms : 0;
  evaluations_ += run_.evaluator().evaluations() - begin;
}

void StageCountSearch::restart() {
  if (restarts_++ < kRestarts && best_.score.priced) {
    const Candidate other = perturbed(best_.candidate);
    alleviation_.begin({other, run_.consider(other)});
    return;
  }
  Scored tuned = fine_tune(run_, best_);
  if (tuned.score.better_than(best_.score)) best_ = std::move(tuned);
  over_ = true;
}

void StageCountSearch::abandon_unless_promising(double best_ms) {
  if (over_ || slices_ < kPatience || best_ms == std::numeric_limits<double>::infinity()) return;
  const bool promising = best_.score.fits() && best_.score.ms - kFurtherGains * last_gain_ms_ <= best_ms;
  over_ = !promising;
}

// Some cuts moved at random: another basin.
Candidate StageCountSearch::perturbed(const Candidate& from) {
  Candidate candidate = from;
  if (!run_.space().knobs.uneven_stages) return candidate;
  for (std::size_t s = 0; s + 1 < from.stages.size(); ++s) {
    Candidate moved = candidate;
    const auto stage = static_cast<std::int32_t>(s);
    const auto by = static_cast<std::int32_t>(random_.between(-3, 3));
    const bool possible = by > 0   ? shift_operators(run_.space(), stage, stage + 1, by, moved)
                          : by < 0 ? shift_operators(run_.space(), stage + 1, stage, -by, moved)
                                   : false;
    if (possible) candidate = moved;
  }
  return candidate;
}

}  // namespace trimtab::tuner
