#pragma once

// Which device buffers a kernel needs, and how many sets of them keep repeated launches out of the cache. Pure.

#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "kernels.hpp"

namespace trimtab::bench {

enum class Fill : std::uint8_t { kNumbers, kIndices, kNothing };

struct Buffer {
  Bytes bytes = 0;
  Fill fill = Fill::kNumbers;  // kIndices: 32-bit, below `index_limit`
  std::int64_t index_limit = 0;
  bool shared = false;  // one for all sets: too large to copy and read at random anyway
};

// In the order in which a launch takes them: what is read, then what is written. A HostCopy's is its device side.
[[nodiscard]] std::vector<Buffer> buffers_of(const Kernel& kernel);

inline constexpr std::int32_t kMostSets = 64;

// Sets so that between two uses of one at least twice the cache is touched; fewer where `free_bytes` is short (at most
// a quarter of it is taken), at least one.
[[nodiscard]] std::int32_t rotation_sets(Bytes touched, Bytes cache, Bytes free_bytes);

}  // namespace trimtab::bench
