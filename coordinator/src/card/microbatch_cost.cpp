#include "card/microbatch_cost.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/numbers.hpp"

namespace trimtab::coordinator {

namespace {

// A product of m rows spends as long on its weights as on `half` rows. Forward and backward pass read the weights
// twice, and write and add up their gradient: some 5 numbers a weight, beside 6 operations a row and weight. So half =
// 5 x bytes x (operations a second) / (bytes a second) / 6: for hosts some 4 to 20, for GPUs some 100 to 500.
struct Range {
  double value;
  double low;
  double high;
};
constexpr Range kHalfOnHost = {10, 4, 20};
constexpr Range kHalfOnDevice = {250, 100, 500};
// What the operators around a heavy product, forward and backward, take to be called.
constexpr Range kCallsMs = {0.2, 0.06, 0.4};
constexpr double kMostCalls = 0.9;  // of a microbatch

constexpr std::size_t kLeastOfASize = 4;
constexpr double kApart = 1.3;  // the largest over the smallest

double flops(const api::FactShape& shape) {
  return static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) *
         static_cast<double>(std::max<std::int64_t>(shape.count, 1));
}

// Attention has no weights.
double weights_share(const std::vector<api::FactShape>& shapes, double half) {
  double all = 0;
  double weights = 0;
  for (const api::FactShape& shape : shapes) {
    if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0) continue;
    const double rows = static_cast<double>(shape.m);
    const double time = flops(shape) * (shape.kind == "attention" ? 1 : 1 + half / rows);
    all += time;
    if (shape.kind != "attention") weights += flops(shape) * half / rows;
  }
  return all > 0 ? weights / all : 0;
}

double products(const std::vector<api::FactShape>& shapes) {
  double count = 0;
  for (const api::FactShape& shape : shapes) count += static_cast<double>(std::max<std::int64_t>(shape.count, 1));
  return count;
}

}  // namespace

std::optional<FixedShare> fixed_share_of_sizes(const std::map<std::int32_t, RankEvidence>& ranks) {
  // Per rank and number of samples in a microbatch, what a microbatch took.
  std::vector<std::pair<double, double>> points;
  for (const auto& [number, rank] : ranks) {
    std::map<double, std::vector<double>> sizes;
    for (const KeptStep& step : rank.steps.all()) {
      if (!step.has_parts || step.microbatches == 0 || step.count == 0) continue;
      const double ms = step.forward + step.backward - std::max(step.stolen, 0.0F);
      if (ms > 0) sizes[static_cast<double>(step.count) / step.microbatches].push_back(ms / step.microbatches);
    }
    std::erase_if(sizes, [](const auto& size) { return size.second.size() < kLeastOfASize; });
    if (sizes.size() < 2 || sizes.rbegin()->first < kApart * sizes.begin()->first) continue;
    const auto& [few, few_ms] = *sizes.begin();
    const auto& [many, many_ms] = *sizes.rbegin();
    const double slope = (median_of(many_ms) - median_of(few_ms)) / (many - few);
    const double usual = median_of(few_ms);
    points.emplace_back(std::clamp((usual - slope * few) / usual, 0.0, 1.0), few);
  }
  if (points.empty()) return {};
  std::vector<double> shares;
  for (const auto& [share, few] : points) shares.push_back(share);
  const double middle = median_of(shares);
  constexpr double kUnsure = 0.5;  // of it, either way: two sizes are few
  return FixedShare{{middle, middle * (1 - kUnsure), std::min(middle * (1 + kUnsure), 1.0)},
                    "from microbatches of several sizes in this job"};
}

std::optional<FixedShare> fixed_share_of_shapes(const std::vector<api::FactShape>& shapes, bool on_device,
                                                double microbatch_ms) {
  if (products(shapes) <= 0 || microbatch_ms <= 0) return {};
  const Range& half = on_device ? kHalfOnDevice : kHalfOnHost;
  // A device is called ahead of time: that it idles meanwhile is seen by itself.
  const auto share = [&](double Range::*which) {
    const double calls = on_device ? 0 : std::min(kMostCalls, products(shapes) * kCallsMs.*which / microbatch_ms);
    return calls + (1 - calls) * weights_share(shapes, half.*which);
  };
  return FixedShare{{share(&Range::value), share(&Range::low), share(&Range::high)},
                    "estimated from the shapes of its heaviest products"};
}

}  // namespace trimtab::coordinator
