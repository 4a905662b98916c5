#include "schema/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "costs/statistics_buckets.hpp"

namespace trimtab {

namespace {

constexpr std::int64_t kMaxValue = std::int64_t{1} << 60;
constexpr UInt128 kSaturated = ~UInt128{0};
constexpr double kGamma = 1.02;
constexpr std::int32_t kZeroBucket = -1;

// kBounds[i] is the largest integer in bucket i. Built by repeated multiplication alone, so that it has the same bits
// on every IEEE machine; std::log, which libraries round differently, would put values at a boundary into other
// buckets.
constexpr std::size_t kBucketCount = 2102;
constexpr std::array<std::int64_t, kBucketCount> kBounds = [] {
  std::array<std::int64_t, kBucketCount> bounds{};
  double bound = 1;
  for (auto& entry : bounds) {
    entry = static_cast<std::int64_t>(bound);
    bound *= kGamma;
  }
  return bounds;
}();
static_assert(kBounds.back() > kMaxValue);

UInt128 saturating_add(UInt128 a, UInt128 b) {
  UInt128 sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kSaturated : sum;
}

// What a bucket's values are taken for: within (gamma - 1) / (gamma + 1) of each of them.
double representative(std::int32_t bucket) {
  if (bucket == kZeroBucket) return 0;
  return 2.0 * std::pow(kGamma, bucket) / (kGamma + 1.0);
}

}  // namespace

std::int32_t statistics_bucket(std::int64_t value) {
  if (value == 0) return kZeroBucket;
  return static_cast<std::int32_t>(std::lower_bound(kBounds.begin(), kBounds.end(), value) - kBounds.begin());
}

void Statistics::add(std::int64_t value) {
  TRIMTAB_ASSERT(value >= 0, "a measured quantity must not be negative");
  if (count_ >= kMaxCount) return;
  value = std::min(value, kMaxValue);
  min_ = empty() ? value : std::min(min_, value);
  max_ = empty() ? value : std::max(max_, value);
  ++count_;
  sum_ += value;
  squares_ = saturating_add(squares_, static_cast<UInt128>(value) * static_cast<UInt128>(value));
  ++buckets_[statistics_bucket(value)];
}

void Statistics::merge(const Statistics& other) {
  if (other.empty() || other.count_ > kMaxCount - count_) return;
  min_ = empty() ? other.min_ : std::min(min_, other.min_);
  max_ = empty() ? other.max_ : std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
  squares_ = saturating_add(squares_, other.squares_);
  for (const auto& [bucket, count] : other.buckets_) buckets_[bucket] += count;
}

double Statistics::mean() const {
  TRIMTAB_ASSERT(!empty(), "statistics of nothing have no mean");
  return static_cast<double>(static_cast<long double>(sum_) / static_cast<long double>(count_));
}

double Statistics::variance() const {
  TRIMTAB_ASSERT(!empty(), "statistics of nothing have no variance");
  if (count_ == 1) return 0;
  if (squares_ == kSaturated) return std::numeric_limits<double>::infinity();
  // With m the integer part of the mean and r = sum - m * count, the squares of (x - m) sum to squares - m * sum - m *
  // r, exactly in integers; only the small step from m to the mean is taken in floating point.
  const auto sum = static_cast<UInt128>(sum_);
  const UInt128 m = sum / count_;
  const UInt128 r = sum % count_;
  const auto around_m = static_cast<long double>(squares_ - m * sum - m * r);
  const auto count = static_cast<long double>(count_);
  const long double step = static_cast<long double>(r) * static_cast<long double>(r) / count;
  return static_cast<double>(std::max(0.0L, around_m - step) / (count - 1));
}

double Statistics::standard_error() const {
  return std::sqrt(variance() / static_cast<double>(count_));
}

double Statistics::quantile(double q) const {
  TRIMTAB_ASSERT(!empty(), "statistics of nothing have no quantile");
  TRIMTAB_ASSERT(q >= 0 && q <= 1, "a quantile is between 0 and 1");
  const double rank = q * static_cast<double>(count_ - 1);
  double seen = 0;
  for (const auto& [bucket, count] : buckets_) {
    seen += static_cast<double>(count);
    if (seen > rank) return std::clamp(representative(bucket), static_cast<double>(min_), static_cast<double>(max_));
  }
  return static_cast<double>(max_);
}

}  // namespace trimtab
