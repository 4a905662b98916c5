#include "search/strategy.hpp"

#include <algorithm>

namespace trimtab::tuner {

double SearchRun::spent() const {
  double share = options_.spent ? options_.spent() : 0;
  if (options_.max_evaluations > 0) {
    const auto used = static_cast<double>(evaluator_.evaluations() - first_evaluation_);
    share = std::max(share, used / static_cast<double>(options_.max_evaluations));
  }
  return share;
}

bool SearchRun::stopped() {
  if (!stop_reason_.empty()) return true;
  if (evaluations_gone()) stop_reason_ = "budget";
  if (cancelled()) stop_reason_ = "cancelled";
  return !stop_reason_.empty() || (limit_ < 1 && spent() >= limit_);
}

void SearchRun::take_over(const SearchRun& part) {
  shortlist_.merge(part.shortlist_);
  for (const Candidate& candidate : part.refused_) {
    if (std::find(refused_.begin(), refused_.end(), candidate) == refused_.end()) refused_.push_back(candidate);
  }
  if (!part.closest_ || !part.closest_score_.better_than(closest_score_)) return;
  closest_ = part.closest_;
  closest_score_ = part.closest_score_;
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

StrategyEnd run_strategy(const Strategy& strategy, SearchRun& run, const std::optional<Candidate>& start) {
  OwnSearch* const own = run.evaluator().own_search();
  const bool instead = own != nullptr && own->strategy() == strategy.name;
  return instead ? own->search(run, start) : strategy.run(run, start);
}

}  // namespace trimtab::tuner
