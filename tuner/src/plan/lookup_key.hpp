#pragma once

// What an evaluator remembers prices by: the numbers that a price depends on, one after the other. Plain values.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "schema/plan.hpp"

namespace trimtab::tuner {

using LookupKey = std::vector<std::int32_t>;

struct LookupKeyHash {
  std::size_t operator()(const LookupKey& key) const {
    std::uint64_t hash = 0x2545f4914f6cdd1dU;
    for (const std::int32_t value : key) {
      hash = (hash ^ static_cast<std::uint32_t>(value)) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// How many, and then each.
inline void append(const std::vector<Range>& ranges, LookupKey& key) {
  key.push_back(static_cast<std::int32_t>(ranges.size()));
  for (const Range& range : ranges) {
    key.push_back(range.begin);
    key.push_back(range.end);
  }
}

}  // namespace trimtab::tuner
