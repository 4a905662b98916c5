#include "schema/statistics.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "costs/statistics_buckets.hpp"
#include "documents/json_document.hpp"

// The text form of statistics, "1;count;sum;squares;min;max;bucket:count,...". What decode() accepts is consistent, so
// that no text from a peer can make the arithmetic of statistics.cpp overflow or assert.

namespace trimtab {

namespace {

constexpr std::int64_t kMaxValue = std::int64_t{1} << 60;
constexpr UInt128 kSaturated = ~UInt128{0};

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
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size() && value <= limit;
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
