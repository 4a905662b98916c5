#include "tuning/search/search_requests.hpp"

#include <algorithm>

namespace trimtab::coordinator {

void SearchRequests::ask(SearchFor purpose, Outcome& out) {
  const std::uint64_t number = ++counts_.searches;
  if (purpose == SearchFor::kJob) {
    beside_.clear();
  } else {
    beside_[purpose] = number;
  }
  out.act(SearchPlans{number, purpose});
}

std::optional<SearchFor> SearchRequests::answered(const SearchFinished& search) {
  if (search.number != counts_.searches) return std::nullopt;
  counts_.evaluations += search.reply.evaluations;
  counts_.seconds += search.reply.seconds;
  const auto beside = std::ranges::find_if(beside_, [&](const auto& one) { return one.second == search.number; });
  if (beside == beside_.end()) return SearchFor::kJob;
  const SearchFor purpose = beside->first;
  beside_.erase(beside);
  return purpose;
}

bool SearchRequests::take_lost(SearchFor purpose) {
  const auto asked = beside_.find(purpose);
  if (asked == beside_.end() || asked->second == counts_.searches) return false;
  beside_.erase(asked);
  return true;
}

bool SearchRequests::searches_beside() const {
  return std::ranges::any_of(beside_, [this](const auto& one) { return one.second == counts_.searches; });
}

}  // namespace trimtab::coordinator
