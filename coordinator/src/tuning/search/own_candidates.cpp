#include "tuning/search/own_candidates.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/numbers.hpp"

namespace trimtab::coordinator {
namespace {

// Standard deviations of logarithms of time, before anything is measured. Where measurements lie further apart, the
// first two are as much larger: of a knob one of whose values was three times as fast, another may be, too.
constexpr double kOfValue = 0.1;         // what a knob's value does
constexpr double kOfCombination = 0.02;  // what all values together do besides
constexpr double kLeastNoise = 0.01;     // of a measurement beside one of another hour
constexpr double kNextTo = 0.6;          // correlation of a number's values that follow each other

// A value of a knob: what it sets, without what is written anyway.
struct Level {
  OwnSettings settings;
  std::optional<double> number;
};

struct Axis {
  const OwnKnob* knob = nullptr;
  std::vector<Level> levels;  // the first is what is written; a number's in its order otherwise
  bool is_number = false;
  std::vector<std::ptrdiff_t> order;  // of a number's levels, by size
};

using Point = std::vector<std::size_t>;  // of each axis the level

std::string text_of(const OwnSettings& settings, const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "" : found->second;
}

Axis axis_of(const OwnKnob& knob, const OwnSettings& written) {
  Axis axis{&knob, {Level{}}, false, {}};
  const bool is_single = knob.values.front().size() == 1 && knob.values.front().contains(knob.name);
  if (is_single) axis.levels.front().number = parse_number<double>(text_of(written, knob.name));
  for (const OwnSettings& value : knob.values) {
    Level level;
    for (const auto& [key, text] : value) {
      const auto known = written.find(key);
      if (known == written.end() || known->second != text) level.settings[key] = text;
    }
    if (level.settings.empty()) continue;  // as it is written
    if (is_single) level.number = parse_number<double>(value.begin()->second);
    axis.levels.push_back(std::move(level));
  }
  axis.is_number = std::ranges::all_of(axis.levels.begin() + 1, axis.levels.end(),
                                       [](const Level& level) { return level.number.has_value(); });
  axis.order.assign(axis.levels.size(), 0);
  for (std::size_t i = 0; i < axis.levels.size(); ++i) {
    axis.order[i] = std::ranges::count_if(
        axis.levels, [&](const Level& other) { return other.number && other.number < axis.levels[i].number; });
  }
  return axis;
}

double correlation(const Axis& axis, std::size_t a, std::size_t b) {
  if (a == b) return 1;
  if (!axis.is_number || !axis.levels[a].number || !axis.levels[b].number) return 0;
  return std::pow(kNextTo, std::abs(axis.order[a] - axis.order[b]));
}

class Space {
 public:
  Space(const std::vector<OwnKnob>& knobs, const OwnSettings& written) : written_(written) {
    for (const OwnKnob& knob : knobs) axes_.push_back(axis_of(knob, written));
  }

  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }

  [[nodiscard]] OwnSettings settings(const Point& point) const {
    OwnSettings all;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      for (const auto& [key, text] : axes_[i].levels[point[i]].settings) all[key] = text;
    }
    return all;
  }

  // Nothing: they are none of the knobs' values, as those of an earlier job file may be.
  [[nodiscard]] std::optional<Point> point(const OwnSettings& settings) const {
    Point found(axes_.size(), 0);
    std::size_t keys = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      for (std::size_t level = 1; level < axes_[i].levels.size(); ++level) {
        if (!includes(settings, axes_[i].levels[level].settings)) continue;
        // Of two that are met the one that says more.
        if (axes_[i].levels[level].settings.size() > axes_[i].levels[found[i]].settings.size()) found[i] = level;
      }
      keys += axes_[i].levels[found[i]].settings.size();
    }
    return keys == settings.size() ? std::optional(std::move(found)) : std::nullopt;
  }

  // A knob whose condition is not met stays as it is written.
  [[nodiscard]] Point valid(Point point) const {
    for (std::size_t round = 0; round < axes_.size(); ++round) {
      const OwnSettings now = settings(point);
      bool changed = false;
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        if (point[i] == 0 || counts(*axes_[i].knob, now)) continue;
        point[i] = 0;
        changed = true;
      }
      if (!changed) break;
    }
    return point;
  }

  // What differs in one knob, and in those that its value no longer lets count.
  [[nodiscard]] std::set<Point> beside(const Point& point) const {
    std::set<Point> all;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      for (std::size_t level = 0; level < axes_[i].levels.size(); ++level) {
        Point other = point;
        other[i] = level;
        all.insert(valid(std::move(other)));
      }
    }
    all.erase(point);
    return all;
  }

  // How many times as large effects are as they were expected to be.
  void set_scale(double scale) { variance_ = scale * scale; }

  [[nodiscard]] double covariance(const Point& a, const Point& b) const {
    double sum = 0;
    double product = 1;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const double alike = correlation(axes_[i], a[i], b[i]);
      sum += kOfValue * kOfValue * alike;
      product *= alike;
    }
    return variance_ * (sum + kOfCombination * kOfCombination * product);
  }

 private:
  static bool includes(const OwnSettings& all, const OwnSettings& some) {
    return std::ranges::all_of(some, [&](const auto& one) {
      const auto found = all.find(one.first);
      return found != all.end() && found->second == one.second;
    });
  }

  [[nodiscard]] bool counts(const OwnKnob& knob, const OwnSettings& now) const {
    return std::ranges::all_of(knob.when, [&](const auto& condition) {
      const auto& [key, values] = condition;
      const auto is = now.contains(key) ? now.find(key) : written_.find(key);
      return (now.contains(key) || is != written_.end()) && std::ranges::find(values, is->second) != values.end();
    });
  }

  const OwnSettings& written_;
  std::vector<Axis> axes_;
  double variance_ = 1;
};

// What is known of points beside the incumbent.
class Gains {
 public:
  Gains(const Space& space, Point incumbent, std::vector<Point> points, const std::vector<double>& noise,
        std::vector<double> log_times)
      : space_(space),
        incumbent_(std::move(incumbent)),
        points_(std::move(points)),
        process_(covariances_of(space_, points_), noise, std::move(log_times)) {}

  [[nodiscard]] Estimate of(const Point& to) const {
    std::vector<double> apart;
    for (const Point& one : points_) apart.push_back(space_.covariance(incumbent_, one) - space_.covariance(to, one));
    const double prior =
        space_.covariance(incumbent_, incumbent_) + space_.covariance(to, to) - 2 * space_.covariance(incumbent_, to);
    return process_.estimate(apart, prior);
  }

 private:
  static std::vector<std::vector<double>> covariances_of(const Space& space, const std::vector<Point>& points) {
    std::vector<std::vector<double>> all;
    for (const Point& one : points) {
      all.emplace_back();
      for (const Point& other : points) all.back().push_back(space.covariance(one, other));
    }
    return all;
  }

  const Space& space_;
  Point incumbent_;
  std::vector<Point> points_;
  GaussianProcess process_;
};

// One knob after the other, as long as that is expected to gain.
Point expected_best(const Space& space, const Gains& gains, Point best) {
  double gain = gains.of(best).mean;
  for (bool better = true; std::exchange(better, false);) {
    for (const Point& other : space.beside(best)) {
      const double of_other = gains.of(other).mean;
      if (of_other <= gain + 1e-9) continue;
      best = other;
      gain = of_other;
      better = true;
    }
  }
  return best;
}

// Half of what lies between the fastest and the slowest, beside what a value is expected to do.
double scale_of(const std::vector<double>& log_times) {
  const auto [least, most] = std::ranges::minmax(log_times);
  return std::max(1.0, (most - least) / 2 / kOfValue);
}

std::optional<Gains> known_gains(Space& space, const Point& incumbent, const std::vector<OwnMeasurement>& measured) {
  std::vector<Point> points;
  std::vector<double> noise;
  std::vector<double> log_times;
  for (const OwnMeasurement& one : measured) {
    auto point = space.point(one.settings);
    if (!point || one.ms <= 0) continue;
    points.push_back(std::move(*point));
    noise.push_back(std::max(one.relative_sigma, kLeastNoise));
    log_times.push_back(std::log(one.ms));
  }
  if (points.empty()) return std::nullopt;
  space.set_scale(scale_of(log_times));
  // Effects are around a time that is not known: the mean of what was measured stands for it.
  const double sum = std::accumulate(log_times.begin(), log_times.end(), 0.0);
  for (double& time : log_times) time -= sum / static_cast<double>(points.size());
  return Gains(space, incumbent, std::move(points), noise, std::move(log_times));
}

}  // namespace

std::vector<OwnCandidate> own_candidates(const std::vector<OwnKnob>& knobs, const OwnSettings& written,
                                         const OwnSettings& incumbent, const std::vector<OwnMeasurement>& measured) {
  Space space(knobs, written);
  const std::optional<Point> from = space.point(incumbent);
  if (!from) return {};
  const std::optional<Gains> gains = known_gains(space, *from, measured);
  if (!gains) return {};
  std::set<Point> all = space.beside(*from);
  all.insert(expected_best(space, *gains, *from));
  all.erase(*from);
  std::vector<OwnCandidate> candidates;
  for (const Point& one : all) {
    const Estimate gain = gains->of(one);
    candidates.push_back({space.settings(one), gain.mean, gain.sigma});
  }
  return candidates;
}

}  // namespace trimtab::coordinator
