#include "card/stretches.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {

namespace {

constexpr std::size_t kMostStretches = 20;
constexpr double kMissed = 0.025;  // at either end

// How many of `count` independent values lie below their median at most, but for a chance of kMissed: the index of the
// interval's lower end.
std::size_t lower_index(std::size_t count) {
  double chance = std::pow(0.5, static_cast<double>(count));  // that just `below` of them do
  double sum = 0;
  std::size_t below = 0;
  for (; below < count / 2; ++below) {
    sum += chance;
    if (sum > kMissed) break;
    chance *= static_cast<double>(count - below) / static_cast<double>(below + 1);
  }
  return below > 0 ? below - 1 : 0;
}

}  // namespace

double median_of(std::vector<double> values) {
  TRIMTAB_ASSERT(!values.empty(), "a series has values");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double quantile_of(std::vector<double> values, double q) {
  TRIMTAB_ASSERT(!values.empty(), "a series has values");
  const double place = q * static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::lround(place));
  std::ranges::nth_element(values, at);
  return *at;
}

namespace {

std::size_t stretches_of(std::size_t rows) {
  return std::clamp<std::size_t>(rows / 3, std::min(rows, kLeastRows), kMostStretches);
}

// `of`: what a stretch from row `begin` to `end` gives.
std::vector<double> by_stretch(std::size_t rows, const std::function<double(std::size_t, std::size_t)>& of) {
  const std::size_t stretches = stretches_of(rows);
  std::vector<double> all;
  for (std::size_t i = 0; i < stretches; ++i) all.push_back(of(i * rows / stretches, (i + 1) * rows / stretches));
  return all;
}

std::vector<double> medians(std::span<const double> series) {
  TRIMTAB_ASSERT(!series.empty(), "an interval needs some rows");
  return by_stretch(series.size(), [series](std::size_t begin, std::size_t end) {
    const std::span<const double> stretch = series.subspan(begin, end - begin);
    return median_of({stretch.begin(), stretch.end()});
  });
}

Estimate around(double value, std::vector<double> stretches) {
  std::ranges::sort(stretches);
  const std::size_t low = lower_index(stretches.size());
  return {value, std::min(value, stretches[low]), std::max(value, stretches[stretches.size() - 1 - low])};
}

}  // namespace

Estimate estimate_of(std::span<const double> series) {
  return around(median_of({series.begin(), series.end()}), medians(series));
}

double chance_above(std::span<const double> series, double limit) {
  const std::vector<double> all = medians(series);
  const auto above = std::ranges::count_if(all, [limit](double median) { return median > limit; });
  double chance = std::pow(0.5, static_cast<double>(all.size()));  // that just so many of them are below
  double sum = 0;
  for (std::size_t below = 0; std::cmp_less_equal(below + static_cast<std::size_t>(above), all.size()); ++below) {
    sum += chance;
    chance *= static_cast<double>(all.size() - below) / static_cast<double>(below + 1);
  }
  return sum;
}

Estimate estimate_of_sums(std::span<const double> parts, std::span<const double> wholes) {
  TRIMTAB_ASSERT(!parts.empty() && parts.size() == wholes.size(), "an interval needs some rows");
  const auto ratio = [parts, wholes](std::size_t begin, std::size_t end) {
    double part = 0;
    double whole = 0;
    for (std::size_t i = begin; i < end; ++i) {
      part += parts[i];
      whole += wholes[i];
    }
    return whole > 0 ? part / whole : 0;
  };
  const std::vector<double> ratios = by_stretch(parts.size(), ratio);
  return around(median_of(ratios), ratios);
}

}  // namespace trimtab::coordinator
