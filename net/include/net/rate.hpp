#pragma once

// How fast a peer's frames are read; what comes faster is read later, and waits on its side. A plain value.

#include <cstdint>

namespace trimtab::net {

struct Rate {
  std::uint32_t frames_per_second = 0;  // 0 = no limit
  std::uint64_t bytes_per_second = 0;   // 0 = no limit; else at least the largest frame, or that one waits for seconds
};

}  // namespace trimtab::net
