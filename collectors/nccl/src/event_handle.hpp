#pragma once

// What NCCL holds as "void*" for an event of ours: not an address, so that a handle which is old, of another process
// (PXN runs a rank's proxy operations elsewhere) or of another plugin is recognised and nothing is ever dereferenced.
// Top bit set: no address of a Linux program looks like it. 0 is no event.

#include <cstdint>

namespace trimtab::nccl {

struct EventHandle {
  static constexpr std::uint32_t kCollectivePart = 0;  // the collective or p2p itself; channel c is part c + 1
  static constexpr std::uint32_t kGroupPart = 0xff;    // a group: only acknowledged

  std::uint32_t process = 0;     // 15 bits
  std::uint32_t generation = 0;  // 24 bits, of its slot
  std::uint32_t index = 0;       // 16 bits
  std::uint32_t part = 0;        // 8 bits

  static constexpr std::uint32_t kGenerationMask = 0xffffff;

  [[nodiscard]] std::uint64_t bits() const {
    return std::uint64_t{1} << 63 | std::uint64_t{process & 0x7fff} << 48 |
           std::uint64_t{generation & kGenerationMask} << 24 | std::uint64_t{index & 0xffff} << 8 | (part & 0xff);
  }
  // False for what no handle of that process looks like.
  static bool parse(std::uint64_t bits, std::uint32_t process, EventHandle& handle) {
    handle.process = static_cast<std::uint32_t>(bits >> 48) & 0x7fff;
    handle.generation = static_cast<std::uint32_t>(bits >> 24) & kGenerationMask;
    handle.index = static_cast<std::uint32_t>(bits >> 8) & 0xffff;
    handle.part = static_cast<std::uint32_t>(bits) & 0xff;
    return bits >> 63 == 1 && handle.process == (process & 0x7fff);
  }
};

}  // namespace trimtab::nccl
