#pragma once

// Handles that NVTX hands out for domains and registered strings. A handle is the index of a text in private memory, so
// it stays valid without an agent, across an agent's restart and in a forked child; the ring's index of the same text
// is looked up once a ring. Any thread may call any method.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "name_table.hpp"

namespace trimtab::inject {

// The ring's name table and which ring it is; a forked child starts another one.
struct RingNames {
  NameTable* table = nullptr;
  std::uint32_t generation = 0;
};

// Kept apart from HandleTable so that it lies in zeroed memory and takes no room in the file.
template <std::uint32_t capacity>
struct HandleMemory {
  record::NameEntry entries[capacity];
  std::atomic<std::uint64_t> known[capacity];  // generation << 32 | index in that generation's ring
};

class HandleTable {
 public:
  template <std::uint32_t capacity>
  constexpr explicit HandleTable(HandleMemory<capacity>& memory)
      : texts_(memory.entries, capacity), known_(memory.known) {}

  // 0 when there is no room.
  std::uint32_t create(const char* text, std::size_t length) { return texts_.intern(text, length); }

  // The ring's index of a handle's text; 0 for 0, for a handle that we never gave, and for a full ring table.
  std::uint32_t ring_index(std::uint32_t handle, const RingNames& ring) {
    if (!texts_.valid(handle)) return 0;
    const std::uint64_t known = known_[handle].load(std::memory_order_relaxed);
    if (known >> 32 == ring.generation) return static_cast<std::uint32_t>(known);
    const record::NameEntry& entry = texts_.entry(handle);
    const std::uint32_t index = ring.table->intern(entry.text, entry.length);
    known_[handle].store(std::uint64_t{ring.generation} << 32 | index, std::memory_order_relaxed);
    return index;
  }

 private:
  NameTable texts_;
  std::atomic<std::uint64_t>* known_;
};

}  // namespace trimtab::inject
