#pragma once

// The histogram's bucket of a value; see schema/statistics.hpp. Shared by the statistics and their text form.

#include <cstdint>

namespace trimtab {

// Of values. Nothing is added beyond it, so that no sum of texts that decode() takes is one that it refuses.
inline constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 48;

// REQUIRES: value >= 0.
[[nodiscard]] std::int32_t statistics_bucket(std::int64_t value);

}  // namespace trimtab
