#include "curve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace trimtab::tuner {
namespace {

constexpr double kSpreadOfOne = 0.05;
constexpr double kSpreadOfEstimates = 0.2;

}  // namespace

Value measured(const Statistics& statistics, double unit) {
  const double mean = statistics.mean();
  double error = statistics.count() > 1 ? statistics.standard_error() : kSpreadOfOne * mean;
  if (!std::isfinite(error)) error = kSpreadOfOne * mean;
  const double spread = statistics.count() > 1 ? std::sqrt(statistics.variance()) : 0;
  return {mean * unit, error * unit, Quality::kMeasured, std::isfinite(spread) ? spread * unit : 0};
}

Curve::Curve(const std::map<std::int64_t, Statistics>& points, double unit) {
  for (const auto& [x, statistics] : points) {
    if (!statistics.empty()) points_.push_back({x, measured(statistics, unit)});
  }
}

Value Curve::at(std::int64_t x) const {
  const auto above = std::lower_bound(points_.begin(), points_.end(), x,
                                      [](const Point& point, std::int64_t value) { return point.x < value; });
  if (above == points_.end()) return {};
  if (above->x == x) return above->value;
  if (above == points_.begin()) return {};
  const Point& low = *(above - 1);
  const double share = static_cast<double>(x - low.x) / static_cast<double>(above->x - low.x);
  const auto blend = [share](double a, double b) { return a + share * (b - a); };
  return {blend(low.value.mean, above->value.mean), blend(low.value.error, above->value.error), Quality::kMeasured,
          blend(low.value.spread, above->value.spread)};
}

Value Curve::nearest(std::int64_t x) const {
  const auto closest = std::min_element(points_.begin(), points_.end(), [x](const Point& a, const Point& b) {
    return std::llabs(a.x - x) < std::llabs(b.x - x);
  });
  const double scale = closest->x == 0 ? 1.0 : static_cast<double>(x) / static_cast<double>(closest->x);
  const double mean = closest->value.mean * scale;
  return {mean, kSpreadOfEstimates * mean, Quality::kEstimated};
}

}  // namespace trimtab::tuner
