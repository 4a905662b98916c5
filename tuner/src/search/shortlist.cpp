#include "search/shortlist.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trimtab::tuner {

bool Shortlist::near(const Entry& faster, const Entry& slower) const {
  return distinct_ > 0 && slower.ms >= faster.ms && slower.ms <= faster.ms * (1 + distinct_) &&
         faster.layout == slower.layout;
}

bool Shortlist::add(const Score& score, Plan plan) {
  Entry added{score.ms, semantic_hash(plan), std::move(plan), {}};
  if (distinct_ > 0) added.layout = layout_of(added.plan);
  if (excluded_.count(added.hash) != 0) return false;
  const auto covers = [&](const Entry& entry) { return entry.hash == added.hash || near(entry, added); };
  if (!wants(score) || std::any_of(entries_.begin(), entries_.end(), covers)) return true;
  std::erase_if(entries_, [&](const Entry& entry) { return near(added, entry); });
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
