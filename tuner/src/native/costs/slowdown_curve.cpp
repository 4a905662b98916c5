#include "native/costs/slowdown_curve.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "base/numbers.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kSlowdownPerPpm = 1e-6;
constexpr double kErrorOfOneValue = 0.05;  // as for every cost (curve.hpp)
constexpr double kNearFactor = 2;          // powers of two
constexpr double kAnyFactor = std::numeric_limits<double>::infinity();

double powers_between(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(a)) - std::log2(static_cast<double>(b)));
}

// Of values one of which it is, each as likely.
double uniform_error(double range) {
  return range / std::sqrt(12.0);
}

constexpr std::array<std::string_view, kKernelClasses> kNames{"gemm", "attention", "normalization", "elementwise",
                                                              "other"};

struct Word {
  std::string_view part;
  ComputationKind kind;
};
// The first that occurs counts: an attention's head is attention, a model's is a product.
constexpr Word kWords[] = {{"attention", ComputationKind::kAttention},   {"norm", ComputationKind::kNormalization},
                           {"softmax", ComputationKind::kNormalization}, {"loss", ComputationKind::kNormalization},
                           {"embed", ComputationKind::kLookup},          {"gelu", ComputationKind::kElementwise},
                           {"relu", ComputationKind::kElementwise},      {"activation", ComputationKind::kElementwise},
                           {"dropout", ComputationKind::kElementwise},   {"elementwise", ComputationKind::kElementwise},
                           {"mlp", ComputationKind::kProducts},          {"gemm", ComputationKind::kProducts},
                           {"feedforward", ComputationKind::kProducts},  {"linear", ComputationKind::kProducts},
                           {"dense", ComputationKind::kProducts},        {"qkv", ComputationKind::kProducts},
                           {"expert", ComputationKind::kProducts},       {"conv", ComputationKind::kProducts},
                           {"head", ComputationKind::kProducts}};

constexpr std::array kProducts{KernelClass::kGemm};
constexpr std::array kAttention{KernelClass::kGemm, KernelClass::kAttention};
constexpr std::array kNormalization{KernelClass::kNormalization};
constexpr std::array kElementwise{KernelClass::kElementwise};
constexpr std::array kLookup{KernelClass::kOther};

}  // namespace

// Chan, Golub and LeVeque's update of two groups' moments.
void SlowdownCurve::Pool::add(double values, double their_mean, double their_squares, std::int32_t of) {
  const double all = count + values;
  const double apart = their_mean - mean;
  squares += their_squares + apart * apart * count * values / all;
  mean += apart * values / all;
  count = all;
  if (values <= most) return;
  most = values;
  cost = of;
}

MeasuredSlowdown SlowdownCurve::Pool::slowdown() const {
  if (count < 2) return {mean, kErrorOfOneValue * mean, cost};
  return {mean, std::sqrt(squares / (count - 1) / count), cost};
}

void SlowdownCurve::add(std::int64_t size, const Statistics& statistics, std::int32_t cost) {
  const auto count = static_cast<double>(statistics.count());
  const double variance = statistics.variance() * kSlowdownPerPpm * kSlowdownPerPpm;
  points_[std::max<std::int64_t>(0, size)].add(count, statistics.mean() * kSlowdownPerPpm, variance * (count - 1),
                                               cost);
}

void SlowdownCurve::require(double values) {
  std::erase_if(points_, [values](const auto& point) { return point.second.count < values; });
}

std::optional<MeasuredSlowdown> SlowdownCurve::between(std::int64_t size, double reach) const {
  size = std::max<std::int64_t>(1, size);
  const auto above = points_.lower_bound(size);
  const auto below = above == points_.begin() ? points_.end() : std::prev(above);
  const bool has_above = above != points_.end() && powers_between(above->first, size) <= reach;
  const bool has_below = below != points_.end() && below->first > 0 && powers_between(below->first, size) <= reach;
  if (!has_above && !has_below) return std::nullopt;
  if (!has_below) return above->second.slowdown();
  if (!has_above) return below->second.slowdown();
  const MeasuredSlowdown low = below->second.slowdown();
  const MeasuredSlowdown high = above->second.slowdown();
  const double share = powers_between(size, below->first) / powers_between(above->first, below->first);
  return MeasuredSlowdown{low.factor + share * (high.factor - low.factor), low.error + share * (high.error - low.error),
                          share < 0.5 ? low.cost : high.cost};
}

std::optional<MeasuredSlowdown> SlowdownCurve::near(std::int64_t size) const {
  return between(size, kNearFactor);
}

std::optional<MeasuredSlowdown> SlowdownCurve::nearest(std::int64_t size) const {
  if (const auto found = between(size, kAnyFactor)) return found;
  const auto unknown = points_.find(0);
  if (unknown == points_.end()) return std::nullopt;
  return unknown->second.slowdown();
}

std::optional<MeasuredSlowdown> SlowdownCurve::mean_of_sizes() const {
  if (points_.empty()) return std::nullopt;
  MeasuredSlowdown mean{0, 0, points_.begin()->second.cost};
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  const auto count = static_cast<double>(points_.size());
  for (const auto& [size, pool] : points_) {
    const MeasuredSlowdown one = pool.slowdown();
    mean.factor += one.factor / count;
    mean.error = std::max(mean.error, one.error);
    least = std::min(least, one.factor);
    most = std::max(most, one.factor);
  }
  mean.error = root_of_squares(mean.error, uniform_error(most - least));
  return mean;
}

void ClassedSlowdowns::add(std::string_view kernel_class, std::int64_t size, const Statistics& statistics,
                           std::int32_t cost) {
  const std::optional<KernelClass> known = kernel_class_named(kernel_class);
  const std::size_t slot = known ? static_cast<std::size_t>(*known) : kernel_class == "mixed" ? kMixed : kUnclassed;
  classes_[slot].add(size, statistics, cost);
}

void ClassedSlowdowns::settle(double values) {
  std::map<std::int64_t, std::vector<SlowdownCurve::Pool>> by_size;
  for (std::size_t c = 0; c < kKernelClasses; ++c) {
    for (const auto& [size, pool] : classes_[c].points_) by_size[size].push_back(pool);
  }
  for (const auto& [size, pools] : by_size) {
    SlowdownCurve::Pool& all = any_.points_[size];
    double squares = 0;
    double mean = 0;
    for (const SlowdownCurve::Pool& pool : pools) {
      all.add(pool.count, pool.mean, pool.squares, pool.cost);
      mean += pool.mean / static_cast<double>(pools.size());
    }
    for (const SlowdownCurve::Pool& pool : pools) squares += (pool.mean - mean) * (pool.mean - mean);
    const double own = all.slowdown().error;
    const double between = pools.size() > 1 ? squares / static_cast<double>(pools.size() - 1) : 0;
    all.mean = mean;
    // Such that the pool's standard error is of both together.
    all.squares = (own * own + between) * all.count * std::max(1.0, all.count - 1);
  }
  for (const auto& [size, pool] : classes_[kMixed].points_) {
    if (pool.count >= values) any_.points_[size] = pool;
  }
  for (SlowdownCurve& curve : classes_) curve.require(values);
  any_.require(values);
}

std::optional<MeasuredSlowdown> ClassedSlowdowns::read(const SlowdownCurve& curve, std::int64_t size, Reach reach) {
  switch (reach) {
    case Reach::kNear:
      return curve.near(size);
    case Reach::kNearest:
      return curve.nearest(size);
    case Reach::kAnySize:
      break;
  }
  return curve.mean_of_sizes();
}

std::optional<MeasuredSlowdown> ClassedSlowdowns::of_kind(ComputationKind kind, std::int64_t size, Reach reach,
                                                          bool of_communication) const {
  std::array<MeasuredSlowdown, kKernelClasses> found;
  std::size_t count = 0;
  for (const KernelClass of : classes_of(kind)) {
    if (const auto one = read(classes_[static_cast<std::size_t>(of)], size, reach)) found[count++] = *one;
  }
  if (count == 0) return std::nullopt;
  MeasuredSlowdown mean{0, 0, found[0].cost};
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  const auto share = 1 / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double factor = std::max(1.0, found[i].factor);
    mean.factor += share * (of_communication ? 1 / factor : factor);
    mean.error = root_of_squares(mean.error, share * found[i].error);
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  if (of_communication) mean.factor = 1 / mean.factor;
  mean.error = root_of_squares(mean.error, uniform_error(most - least));
  return mean;
}

std::optional<MeasuredSlowdown> ClassedSlowdowns::of_any(std::int64_t size, Reach reach) const {
  return read(any_, size, reach);
}

std::optional<MeasuredSlowdown> ClassedSlowdowns::unclassed(std::int64_t size, Reach reach) const {
  return read(classes_[kUnclassed], size, reach);
}

std::optional<KernelClass> kernel_class_named(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<KernelClass>(found - kNames.begin());
}

ComputationKind computation_of(std::string_view operator_kind) {
  for (const Word& word : kWords) {
    if (operator_kind.find(word.part) != std::string_view::npos) return word.kind;
  }
  return ComputationKind::kUnknown;
}

std::span<const KernelClass> classes_of(ComputationKind kind) {
  switch (kind) {
    case ComputationKind::kProducts:
      return kProducts;
    case ComputationKind::kAttention:
      return kAttention;
    case ComputationKind::kNormalization:
      return kNormalization;
    case ComputationKind::kElementwise:
      return kElementwise;
    case ComputationKind::kLookup:
      return kLookup;
    case ComputationKind::kUnknown:
      break;
  }
  return {};
}

}  // namespace trimtab::tuner
