#include "schema/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "documents/json_document.hpp"

namespace trimtab {

namespace {

constexpr std::int64_t kMaxValue = std::int64_t{1} << 60;
// Of values. Nothing is added beyond it, so that no sum of texts that decode() takes is one that it refuses.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 48;
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

// REQUIRES: value >= 0.
std::int32_t statistics_bucket(std::int64_t value) {
  if (value == 0) return kZeroBucket;
  return static_cast<std::int32_t>(std::lower_bound(kBounds.begin(), kBounds.end(), value) - kBounds.begin());
}

// The text form. What decode() accepts is consistent, so that no text from a peer can make the arithmetic above
// overflow or assert.
std::string decimal(UInt128 value) {
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(value % 10));
    value /= 10;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// Takes the field up to `separator` off the front of `text`; the last field has none.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return field;
}

bool read(std::string_view text, UInt128& value) {
  value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return false;
    if (__builtin_mul_overflow(value, UInt128{10}, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<UInt128>(digit - '0'), &value)) return false;
  }
  return !text.empty();
}

template <typename T>
bool read_limited(std::string_view text, T limit, T& value) {
  const auto read = parse_number<T>(text);
  value = read.value_or(T{});
  return read && value <= limit;
}

bool read_buckets(std::string_view text, std::map<std::int32_t, std::uint64_t>& buckets) {
  if (text.ends_with(',')) return false;
  while (!text.empty()) {
    std::string_view entry = take(text, ',');
    std::int32_t bucket = 0;
    std::uint64_t count = 0;
    if (!read_limited(take(entry, ':'), std::int32_t{4096}, bucket) || bucket < -1) return false;
    if (!read_limited(entry, kMaxCount, count) || count == 0) return false;
    if (!buckets.empty() && buckets.rbegin()->first >= bucket) return false;
    buckets.emplace_hint(buckets.end(), bucket, count);
  }
  return true;
}

// The squares are at least those of integers with this sum, as equal as can be. A looser bound would do for variance(),
// but two that just keep it could have a sum that does not.
bool squares_fit(std::uint64_t count, UInt128 sum, UInt128 squares) {
  if (squares == kSaturated) return true;
  const UInt128 mean = sum / count;
  const UInt128 rest = sum % count;
  UInt128 least = 0;
  return !__builtin_mul_overflow(mean, sum + rest, &least) && !__builtin_add_overflow(least, rest, &least) &&
         least <= squares;
}

Error malformed(std::string_view text) {
  return bad_input("expected statistics as 1;count;sum;squares;min;max;buckets, found " + quoted_text(text));
}

}  // namespace

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

std::string Statistics::encode() const {
  std::string text = "1;" + std::to_string(count_) + ";" + decimal(static_cast<UInt128>(sum_)) + ";" +
                     decimal(squares_) + ";" + std::to_string(min_) + ";" + std::to_string(max_) + ";";
  for (const auto& [bucket, count] : buckets_) {
    if (text.back() != ';') text += ',';
    text += std::to_string(bucket) + ":" + std::to_string(count);
  }
  return text;
}

Result<Statistics> Statistics::decode(std::string_view text) {
  std::string_view rest = text;
  const std::string_view version = take(rest, ';');
  if (version != "1") return malformed(text);
  Statistics result;
  UInt128 sum = 0;
  const bool read_all = read_limited(take(rest, ';'), kMaxCount, result.count_) && read(take(rest, ';'), sum) &&
                        read(take(rest, ';'), result.squares_) &&
                        read_limited(take(rest, ';'), kMaxValue, result.min_) &&
                        read_limited(take(rest, ';'), kMaxValue, result.max_) && read_buckets(rest, result.buckets_);
  if (!read_all || sum > static_cast<UInt128>(kMaxValue) * kMaxCount) return malformed(text);
  result.sum_ = static_cast<Int128>(sum);
  if (!result.consistent()) return bad_input("statistics contradict themselves: " + quoted_text(text));
  return result;
}

bool Statistics::consistent() const {
  const auto sum = static_cast<UInt128>(sum_);
  if (count_ == 0) return sum == 0 && squares_ == 0 && min_ == 0 && max_ == 0 && buckets_.empty();
  UInt128 in_buckets = 0;
  for (const auto& [bucket, count] : buckets_) in_buckets += count;
  const auto low = static_cast<UInt128>(min_);
  const auto high = static_cast<UInt128>(max_);
  return in_buckets == count_ && min_ >= 0 && min_ <= max_ && low * count_ <= sum && sum <= high * count_ &&
         buckets_.begin()->first == statistics_bucket(min_) && buckets_.rbegin()->first == statistics_bucket(max_) &&
         squares_fit(count_, sum, squares_);
}

}  // namespace trimtab
