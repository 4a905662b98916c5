#pragma once

// What documents may ask for at most, far above any published training. What plans are searched, priced and simulated
// with grows with these.

#include <cstddef>
#include <cstdint>

namespace trimtab {

inline constexpr std::int32_t kMostGlobalBatch = 1 << 20;  // samples of a step, of a model and of a plan
inline constexpr std::size_t kMostOperators = std::size_t{1} << 16;
inline constexpr std::int64_t kMostExperts = 1 << 16;       // of one operator
inline constexpr std::size_t kMostMicrobatchValues = 1024;  // of either list
inline constexpr std::int64_t kMostDevices = 1 << 20;       // of a cluster's nodes together

}  // namespace trimtab
