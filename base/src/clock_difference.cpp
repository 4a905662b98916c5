#include "base/clock_difference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace trimtab {

namespace {

// Bounds come from another process, which may be wrong by anything: no overflow.
std::int64_t less(std::int64_t first, std::int64_t second) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) - static_cast<std::uint64_t>(second));
}

std::int64_t plus(std::int64_t first, double second) {
  constexpr double kMost = 9e18;
  const std::int64_t rounded = std::llround(std::clamp(second, -kMost, kMost));
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(rounded));
}

}  // namespace

void ClockDifference::add(std::uint64_t their_ns, std::int64_t difference, bool below) {
  if (below_.empty() && above_.empty()) {
    origin_ns_ = their_ns;
    origin_difference_ = difference;
  }
  const Point point{static_cast<double>(static_cast<std::int64_t>(their_ns - origin_ns_)) * 1e-9,
                    static_cast<double>(less(difference, origin_difference_))};
  const Points& others = below ? above_ : below_;
  const auto beyond = [&] { return below ? point.y - high(point.x) : low(point.x) - point.y; };
  if (!others.empty() && beyond() > static_cast<double>(kStepNs)) {
    *this = {};
    return add(their_ns, difference, below);
  }
  Points& points = below ? below_ : above_;
  if (points.size() >= kKept) points.pop_front();
  points.push_back(point);
  narrow_slopes();
}

// Where no line fits the drift has changed, and the older bounds tell of another one.
void ClockDifference::narrow_slopes() {
  find_slopes();
  while (least_slope_ > most_slope_ && below_.size() + above_.size() > 2) {
    Points& older = above_.empty() || (!below_.empty() && below_.front().x < above_.front().x) ? below_ : above_;
    older.pop_front();
    find_slopes();
  }
  if (least_slope_ > most_slope_) std::swap(least_slope_, most_slope_);
}

void ClockDifference::find_slopes() {
  most_slope_ = kMostDrift * 1e9;
  least_slope_ = -most_slope_;
  for (const Point& lower : below_) {
    for (const Point& upper : above_) {
      const double slope = (upper.y - lower.y) / (upper.x - lower.x);
      if (upper.x > lower.x) most_slope_ = std::min(most_slope_, slope);
      if (upper.x < lower.x) least_slope_ = std::max(least_slope_, slope);
    }
  }
}

// REQUIRES, like high(): a bound of either side.
double ClockDifference::low(double x) const {
  if (below_.empty()) return high(x) - static_cast<double>(kOneSidedNs);
  double outermost = -std::numeric_limits<double>::infinity();
  for (const Point& point : below_) {
    const double away = x - point.x;
    outermost = std::max(outermost, point.y + away * (away > 0 ? least_slope_ : most_slope_));
  }
  return outermost;
}

double ClockDifference::high(double x) const {
  if (above_.empty()) return low(x) + static_cast<double>(kOneSidedNs);
  double outermost = std::numeric_limits<double>::infinity();
  for (const Point& point : above_) {
    const double away = x - point.x;
    outermost = std::min(outermost, point.y + away * (away > 0 ? most_slope_ : least_slope_));
  }
  return outermost;
}

std::optional<ClockDifference::Offset> ClockDifference::at(std::uint64_t their_ns) const {
  if (below_.empty() && above_.empty()) return std::nullopt;
  const double x = static_cast<double>(static_cast<std::int64_t>(their_ns - origin_ns_)) * 1e-9;
  const double least = low(x);
  const double most = high(x);
  return Offset{plus(origin_difference_, (least + most) / 2),
                static_cast<std::uint64_t>(plus(0, std::ceil(std::abs(most - least) / 2)))};
}

}  // namespace trimtab
