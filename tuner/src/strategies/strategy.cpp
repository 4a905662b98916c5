#include "strategy.hpp"

#include <algorithm>
#include <array>

namespace trimtab::tuner {

bool SearchRun::stopped() {
  if (!stop_reason_.empty()) return true;
  if (options_.max_evaluations > 0 && evaluator_.evaluations() >= options_.max_evaluations) stop_reason_ = "budget";
  if (options_.stop && options_.stop()) stop_reason_ = "cancelled";
  const bool part_over = limit_ > 0 && evaluator_.evaluations() >= limit_;
  return part_over || !stop_reason_.empty();
}

Score SearchRun::consider(const Candidate& candidate) {
  if (stopped()) return {};
  Score score = evaluator_.price(candidate);
  if (score.priced && !score.fits() && score.better_than(closest_score_)) {
    closest_ = candidate;
    closest_score_ = score;
  }
  if (shortlist_.wants(score) && !shortlist_.add(score, evaluator_.plan(candidate))) {
    if (std::find(refused_.begin(), refused_.end(), candidate) == refused_.end()) refused_.push_back(candidate);
    score.excess_bytes = 1;
  }
  return score;
}

namespace {

constexpr std::array<Strategy, 8> kStrategies{{{"aceso", run_aceso},
                                               {"autopipe", run_autopipe},
                                               {"galvatron", run_galvatron},
                                               {"h3t", run_h3t},
                                               {"oases", run_oases},
                                               {"target", run_target},
                                               {"unified", run_unified},
                                               {"exhaustive", run_exhaustive}}};

}  // namespace

std::span<const Strategy> strategy_table() {
  return kStrategies;
}

}  // namespace trimtab::tuner
