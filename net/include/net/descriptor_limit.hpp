#pragma once

// How many descriptors this process may have: a connection is one, and shells allow 1024 of them where nobody says
// otherwise.

#include <cstdint>
#include <limits>

namespace trimtab::net {

inline constexpr std::uint64_t kAllDescriptors = std::numeric_limits<std::uint64_t>::max();

// Raises the soft limit to `wanted`, or as far as the hard one lets it; it is never lowered. How many are allowed now.
// Before the first thread; children inherit it.
std::uint64_t allow_descriptors(std::uint64_t wanted);

}  // namespace trimtab::net
