#include "tuning/search/near_copies.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::coordinator {

double noise_of(const KnownPlan& known) {
  return std::max(kLeastDifference, known.relative_error);
}

const KnownPlan* near_copy_of(const PricedPlan& candidate, const std::vector<KnownPlan>& known) {
  const auto same = [&](const KnownPlan& one) {
    if (candidate.layout.empty() || one.layout != candidate.layout || one.predicted_ms <= 0) return false;
    return std::abs(candidate.predicted.mean_ms / one.predicted_ms - 1) < noise_of(one);
  };
  const auto found = std::find_if(known.begin(), known.end(), same);
  return found == known.end() ? nullptr : &*found;
}

}  // namespace trimtab::coordinator
