#include "shortlist.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace trimtab::tuner {

bool Shortlist::add(const Score& score, Plan plan) {
  std::string hash = semantic_hash(plan);
  if (excluded_.count(hash) != 0) return false;
  const bool repeat =
      std::any_of(entries_.begin(), entries_.end(), [&hash](const Entry& entry) { return entry.hash == hash; });
  if (repeat || !wants(score)) return true;
  const auto place = std::upper_bound(entries_.begin(), entries_.end(), score.ms,
                                      [](double ms, const Entry& entry) { return ms < entry.ms; });
  entries_.insert(place, {score.ms, std::move(hash), std::move(plan)});
  if (entries_.size() > capacity_) entries_.pop_back();
  return true;
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
