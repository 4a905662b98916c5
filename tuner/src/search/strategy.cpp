#include "search/strategy.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

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
    if (std::ranges::find(refused_, candidate) == refused_.end()) refused_.push_back(candidate);
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
    if (std::ranges::find(refused_, candidate) == refused_.end()) refused_.push_back(candidate);
    score.excess_bytes = 1;
  }
  return score;
}

StrategyEnd run_strategy(const Strategy& strategy, SearchRun& run, const std::optional<Candidate>& start) {
  OwnSearch* const own = run.evaluator().own_search();
  const bool instead = own != nullptr && own->strategy() == strategy.name;
  return instead ? own->search(run, start) : strategy.run(run, start);
}

std::string first_names(const std::set<std::string>& names) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  std::size_t named = 0;
  for (const std::string& name : names) {
    if (named++ == kNamed) return text + "; ...";
    text += (named > 1 ? "; " : "") + name;
  }
  return text;
}

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

bool Shortlist::near(const Entry& faster, const Entry& slower) const {
  return distinct_ > 0 && slower.ms >= faster.ms && slower.ms <= faster.ms * (1 + distinct_) &&
         faster.layout == slower.layout;
}

bool Shortlist::has_place(const Entry& added) {
  const auto is_alike = [&](const Entry& entry) { return entry.shape == added.shape; };
  if (std::cmp_less(std::ranges::count_if(entries_, is_alike), of_a_shape_)) return true;
  const auto slowest = std::find_if(entries_.rbegin(), entries_.rend(), is_alike);
  if (slowest->ms <= added.ms) return false;
  entries_.erase(std::next(slowest).base());
  return true;
}

bool Shortlist::add(const Score& score, Plan plan) {
  // A search comes to its best plans again and again, and what a plan means takes long to write.
  auto alike = std::lower_bound(entries_.begin(), entries_.end(), score.ms,
                                [](const Entry& entry, double ms) { return entry.ms < ms; });
  for (; alike != entries_.end() && alike->ms == score.ms; ++alike) {
    if (alike->plan == plan) return true;
  }
  Entry added{score.ms, {}, std::move(plan), {}, {}};
  if (distinct_ > 0) added.layout = layout_of(added.plan);
  const bool is_near = std::ranges::any_of(entries_, [&](const Entry& entry) { return near(entry, added); });
  if (is_near && excluded_.empty()) return true;
  added.hash = semantic_hash(added.plan);
  if (excluded_.count(added.hash) != 0) return false;
  const auto is_same = [&](const Entry& entry) { return entry.hash == added.hash; };
  if (is_near || !wants(score) || std::ranges::any_of(entries_, is_same)) return true;
  if (of_a_shape_ > 0) added.shape = shape_of(added.plan);
  std::erase_if(entries_, [&](const Entry& entry) { return near(added, entry); });
  if (of_a_shape_ > 0 && !has_place(added)) return true;
  const auto place = std::upper_bound(entries_.begin(), entries_.end(), score.ms,
                                      [](double ms, const Entry& entry) { return ms < entry.ms; });
  entries_.insert(place, std::move(added));
  if (entries_.size() > capacity_) entries_.pop_back();
  return true;
}

void Shortlist::merge(const Shortlist& other) {
  for (const Entry& entry : other.entries_) {
    const Score score{true, 0, entry.ms};
    if (wants(score)) add(score, entry.plan);
  }
}

double Shortlist::best_ms() const {
  return entries_.empty() ? std::numeric_limits<double>::infinity() : entries_.front().ms;
}

std::vector<Plan> Shortlist::plans() const {
  std::vector<Plan> plans;
  for (const Entry& entry : entries_) plans.push_back(entry.plan);
  return plans;
}

}  // namespace trimtab::tuner
