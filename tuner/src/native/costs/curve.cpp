#include "native/costs/curve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/numbers.hpp"
#include "native/costs/operator_traits.hpp"
#include "native/costs/training_correction.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kSpreadOfOne = 0.05;
constexpr double kSpreadOfEstimates = 0.2;

double ratio(std::int64_t x, std::int64_t to) {
  return to == 0 ? 1.0 : static_cast<double>(x) / static_cast<double>(to);
}

constexpr double kMsPerNs = 1e-6;

using Points = std::map<std::int64_t, Value>;
using PointsKey = std::tuple<std::string, std::int32_t, std::string>;
static_assert(static_cast<std::size_t>(CostKind::kOperatorBackwardReserveBytes) + 1 == kOperatorParts);

}  // namespace

Value measured(const Statistics& statistics, double unit) {
  const double mean = statistics.mean();
  double error = statistics.count() > 1 ? statistics.standard_error() : kSpreadOfOne * mean;
  if (!std::isfinite(error)) error = kSpreadOfOne * mean;
  const double spread = statistics.count() > 1 ? std::sqrt(statistics.variance()) : 0;
  return {mean * unit, error * unit, Quality::kMeasured, std::isfinite(spread) ? spread * unit : 0};
}

Value measured(const ChosenCost& cost, double unit) {
  constexpr double kOfUnknownCondition = 0.30;  // waiting, or others' work, may be a part of it
  constexpr double kOfEstimate = 0.20;          // as of what estimates make of other sizes
  Value value = measured(cost.statistics, unit);
  const bool in_training = seen_in_training(cost.source);
  if (in_training || cost.source.disturbed) value.mean = level_of(cost) * unit;
  double more = cost.log_sigma;
  if (in_training) more = root_of_squares(more, kSystematic);
  if (cost.source.disturbed) more = root_of_squares(more, kOfDisturbed);
  if (cost.source.kind == CostSource::Kind::kEstimated) more = root_of_squares(more, kOfEstimate);
  if (condition_unknown(cost.source) || (in_training && cost.source.waiting)) {
    more = root_of_squares(more, kOfUnknownCondition);
  }
  value.error = root_of_squares(value.error, more * value.mean) * cost.factor;
  value.mean *= cost.factor;
  value.spread *= cost.factor;
  return value;
}

void MeasuredUpdate::add(const ChosenCost& cost) {
  if (cost.source.kind != CostSource::Kind::kTakenOver) return here.merge(cost.statistics);
  taken_over = measured(cost, kMsPerNs);
}

Value MeasuredUpdate::ms() const {
  return here.empty() ? taken_over : measured(here, kMsPerNs);
}

Curve::Curve(const std::map<std::int64_t, Value>& points) {
  for (const auto& [x, value] : points) points_.push_back({x, value});
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

Value Curve::around(std::int64_t x, double ratio) const {
  const Value value = at(x);
  if (value.quality != Quality::kMissing || points_.empty() || x <= 0) return value;
  const Point& edge = x < points_.front().x ? points_.front() : points_.back();
  if (edge.x <= 0) return value;
  const double scale = static_cast<double>(x) / static_cast<double>(edge.x);
  if (scale > ratio || scale * ratio < 1) return value;
  const Value& of = edge.value;
  return {of.mean * scale, root_of_squares(of.error * scale, std::fabs(scale - 1) * of.mean), of.quality,
          of.spread * scale};
}

const Curve::Point& Curve::closest(std::int64_t x) const {
  return *std::ranges::min_element(
      points_, [x](const Point& a, const Point& b) { return std::llabs(a.x - x) < std::llabs(b.x - x); });
}

Value Curve::nearest(std::int64_t x) const {
  const Point& point = closest(x);
  const double mean = point.value.mean * ratio(x, point.x);
  return {mean, kSpreadOfEstimates * mean, Quality::kEstimated};
}

double Curve::on_line(std::int64_t x) const {
  const Point& near = closest(x);
  if (points_.size() == 1) return near.value.mean * ratio(x, near.x);
  const bool below = &near == &points_.front();
  const Point& next = below ? points_[1] : points_[points_.size() - 2];
  const double slope = (next.value.mean - near.value.mean) / static_cast<double>(next.x - near.x);
  return near.value.mean + slope * static_cast<double>(x - near.x);
}

Value Curve::of_samples(std::int64_t x) const {
  const Point& point = closest(x);
  const double times = ratio(x, point.x);
  const double in_proportion = point.value.mean * times;
  const double mean = times >= 1 ? in_proportion : std::clamp(on_line(x), in_proportion, point.value.mean);
  const double doublings = times > 0 ? std::max(1.0, std::abs(std::log2(times))) : 1;
  return {mean, kSpreadOfEstimates * doublings * mean, Quality::kEstimated};
}

Value Curve::of_bytes(std::int64_t x) const {
  const Point& point = closest(x);
  const double in_proportion = point.value.mean * ratio(x, point.x);
  const auto [least, most] = std::minmax(in_proportion, point.value.mean);
  const double mean = std::clamp(on_line(x), least, most);
  // Small messages may take no less than the point, large ones no less than in proportion.
  const double error = std::max(kSpreadOfEstimates * mean, (most - mean) / 2);
  return {mean, error, Quality::kEstimated};
}

std::map<std::string, MeasuredOperator> measured_operators(const Model& model, const std::vector<ChosenCost>& costs) {
  std::map<std::string, MeasuredOperator> operators;
  for (const Operator& op : model.operators) operators.try_emplace(op.cost_key);
  std::map<PointsKey, std::array<Points, kOperatorParts>> points;
  for (const ChosenCost& cost : costs) {
    const CostKey& key = cost.key;
    const auto found = operators.find(key.subject);
    const bool fits = key.dtype.empty() || key.dtype == model.dtype;
    if (found == operators.end() || !fits || cost.statistics.empty()) continue;
    if (key.kind == CostKind::kOptimizerStep) {
      const bool on_host = key.placement == "host";
      (on_host ? found->second.host_optimizer : found->second.optimizer).add(cost);
    }
    if (key.kind > CostKind::kOperatorBackwardReserveBytes) continue;
    const std::string sharding = key.sharding.empty() ? "default" : key.sharding;
    if (sharding != "default" && sharding != "alternate" && !is_sharing_name(sharding)) continue;
    std::array<Points, kOperatorParts>& of = points[{key.subject, key.tp == 0 ? 1 : key.tp, sharding}];
    const auto part = static_cast<std::size_t>(key.kind);
    const Value value = measured(cost, part < 2 ? kMsPerNs : 1);
    // Costs in the model's own type come behind those of which no type is said, and count.
    of[part].insert_or_assign(key.samples, value);
  }
  for (const auto& [key, parts] : points) {
    const auto& [subject, tp, sharding] = key;
    MeasuredOperator& of = operators[subject];
    OperatorCurves& curves =
        is_sharing_name(sharding) ? of.sharing[{tp, sharding}] : of.at[{tp, sharding == "alternate"}];
    for (std::size_t part = 0; part < kOperatorParts; ++part) {
      curves.of_part[part] = Curve(parts[part]);
    }
  }
  return operators;
}

}  // namespace trimtab::tuner
