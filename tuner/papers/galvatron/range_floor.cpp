#include "papers/galvatron/range_floor.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-13;  // of sums that nearly cancel

// Ms that a unit of memory saves from one way to a fuller one.
double slope(const RangeFloor::Way& lean, const RangeFloor::Way& full) {
  return (lean.time - full.time) / (full.memory - lean.memory);
}

}  // namespace

// Keeps the lower left hull: each further way is quicker, by less and less for its memory.
void RangeFloor::add_kind(std::vector<Way> ways) {
  std::sort(ways.begin(), ways.end(),
            [](const Way& a, const Way& b) { return a.memory != b.memory ? a.memory < b.memory : a.time < b.time; });
  std::vector<Way>& hull = hulls_.emplace_back();
  for (const Way& way : ways) {
    if (!hull.empty() && way.time >= hull.back().time) continue;
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), way)) hull.pop_back();
    hull.push_back(way);
  }
}

void RangeFloor::settle() {
  multipliers_.assign(1, 0);
  for (const std::vector<Way>& hull : hulls_) {
    for (std::size_t i = 1; i < hull.size(); ++i) multipliers_.push_back(slope(hull[i - 1], hull[i]));
  }
  std::sort(multipliers_.begin(), multipliers_.end());
  multipliers_.erase(std::unique(multipliers_.begin(), multipliers_.end()), multipliers_.end());
  for (const double multiplier : multipliers_) {
    for (const std::vector<Way>& hull : hulls_) {
      double least = kInfinite;
      for (const Way& way : hull) least = std::min(least, way.time + multiplier * way.memory);
      priced_.push_back(least);
    }
  }
}

double RangeFloor::least(const LayerRanges& ranges, std::int32_t number) const {
  const auto kinds = static_cast<std::int32_t>(hulls_.size());
  double leanest = 0;
  for (std::int32_t kind = 0; kind < kinds; ++kind) {
    const std::int32_t layers = ranges.layers_of(number, kind);
    const std::vector<Way>& hull = hulls_[static_cast<std::size_t>(kind)];
    if (layers == 0) continue;
    if (hull.empty()) return kInfinite;
    leanest += layers * hull.front().memory;
  }
  if (leanest > limit_) return kInfinite;
  double most = 0;
  for (std::size_t m = 0; m < multipliers_.size(); ++m) {
    const double price_of_limit = multipliers_[m] * limit_;
    double least = -price_of_limit;
    for (std::int32_t kind = 0; kind < kinds; ++kind) {
      const std::int32_t layers = ranges.layers_of(number, kind);
      if (layers > 0) least += layers * priced_[m * static_cast<std::size_t>(kinds) + static_cast<std::size_t>(kind)];
    }
    most = std::max(most, least - kRounding * (least + price_of_limit));
  }
  return most;
}

}  // namespace trimtab::tuner::galvatron
