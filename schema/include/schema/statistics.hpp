#pragma once

// Mergeable statistics of an integer quantity (nanoseconds, bytes, parts per million). Everything is kept in integers, so
// merging in any order, or adding all values in one pass, gives the same result bit for bit. A plain value.
//
// Quantiles come from a logarithmic histogram with relative error below 1 % (the idea of DDSketch, Masson et al., VLDB
// 2019): bucket i holds values v with gamma^(i-1) < v <= gamma^i, gamma = 1.02; 0 has a bucket of its own.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

class Statistics {
 public:
  // Values below 0 are a programming error. Values are capped at 2^60 (36 years in ns), so that 2^7 ... 2^8 sums of squares
  // cannot overflow before count reaches 128; beyond that squares saturate, which the variance then reports as infinite.
  // There are at most 2^48 values, of which a peer can say that it has them: what would be more is left out, as a whole.
  void add(std::int64_t value);
  void merge(const Statistics& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  // REQUIRES for all below: !empty().
  [[nodiscard]] std::int64_t min() const { return min_; }
  [[nodiscard]] std::int64_t max() const { return max_; }
  [[nodiscard]] double mean() const;
  [[nodiscard]] double variance() const;  // unbiased; 0 for one value
  [[nodiscard]] double standard_error() const;
  // The q-quantile, 0 <= q <= 1, within 1 % of a value of that rank.
  [[nodiscard]] double quantile(double q) const;
  [[nodiscard]] double median() const { return quantile(0.5); }

  // A self-contained text form, "1;count;sum;squares;min;max;bucket:count,...", for databases and wires. Equal statistics
  // have equal texts. decode() refuses what contradicts itself, and more than 2^48 values; what it takes can be merged.
  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static Result<Statistics> decode(std::string_view text);

  bool operator==(const Statistics&) const = default;

 private:
  [[nodiscard]] bool consistent() const;

  std::uint64_t count_ = 0;
  Int128 sum_ = 0;
  UInt128 squares_ = 0;
  std::int64_t min_ = 0;
  std::int64_t max_ = 0;
  std::map<std::int32_t, std::uint64_t> buckets_;
};

}  // namespace trimtab
