#include "gpu_clock.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::agent {

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

void GpuClock::add(std::uint64_t gpu_ns, std::int64_t difference, bool below) {
  const bool first = below_.points.empty() && above_.points.empty();
  if (first) {
    origin_ns_ = gpu_ns;
    origin_difference_ = difference;
  }
  const Point point{static_cast<double>(static_cast<std::int64_t>(gpu_ns - origin_ns_)) * 1e-9,
                    static_cast<double>(less(difference, origin_difference_))};
  const double sign = below ? 1 : -1;
  const Side& other = below ? above_ : below_;
  if (!other.points.empty() && sign * (point.y - other.line(point.x)) > static_cast<double>(kStepNs)) {
    *this = {};
    return add(gpu_ns, difference, below);
  }
  Side& side = below ? below_ : above_;
  if (side.points.size() >= kKept) side.points.pop_front();
  side.points.push_back(point);
  fit(side, sign);
}

// The edge of the points' hull over their mean time has the slope; a line of that slope through the outermost point.
void GpuClock::fit(Side& side, double sign) {
  double mean = 0;
  for (const Point& point : side.points) mean += point.x / static_cast<double>(side.points.size());
  side.slope = 0;
  double outermost = 0;
  bool found = false;
  for (const Point& left : side.points) {
    for (const Point& right : side.points) {
      if (left.x > mean || right.x <= mean || right.x - left.x < 0.5) continue;
      const double slope = (right.y - left.y) / (right.x - left.x);
      const double over_mean = sign * (left.y + slope * (mean - left.x));
      if (found && over_mean <= outermost) continue;
      found = true;
      outermost = over_mean;
      side.slope = std::clamp(slope, -kMostDrift * 1e9, kMostDrift * 1e9);
    }
  }
  const auto height = [&](const Point& point) { return sign * (point.y - side.slope * point.x); };
  side.height = sign * height(*std::ranges::max_element(side.points, {}, height));
}

std::optional<GpuClock::Offset> GpuClock::at(std::uint64_t gpu_ns) const {
  const bool below = !below_.points.empty();
  const bool above = !above_.points.empty();
  if (!below && !above) return std::nullopt;
  const double x = static_cast<double>(static_cast<std::int64_t>(gpu_ns - origin_ns_)) * 1e-9;
  const auto one_sided = static_cast<double>(kOneSidedNs);
  const double low = below ? below_.line(x) : above_.line(x) - one_sided;
  const double high = above ? above_.line(x) : below_.line(x) + one_sided;
  return Offset{plus(origin_difference_, (low + high) / 2),
                static_cast<std::uint64_t>(plus(0, std::abs(high - low) / 2))};
}

}  // namespace trimtab::agent
