#pragma once

// Text to small index, append-only and lock-free, in memory that the caller lends (schema/record.hpp, NameEntry): once
// in the ring, where the consumer reads it, and in private memory for NVTX's domains and registered strings. Any thread
// may call any method. No call waits: an entry that another thread is just writing is passed over, so a text can rarely
// have two indices. Index 0 means "no room".

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "schema/record.hpp"

namespace trimtab::inject {

class NameTable {
 public:
  constexpr NameTable() = default;
  // REQUIRES: `entries` zeroed, `capacity` a power of two and at least 8. The memory must outlive the table.
  constexpr NameTable(record::NameEntry* entries, std::uint32_t capacity) : entries_(entries), capacity_(capacity) {}

  // The index of text[0, length), which is added when it is new; 0 when the table is three quarters full.
  // A longer text than kNameBytes is cut and its entry marked kNameCut.
  std::uint32_t intern(const char* text, std::size_t length);

  // Whether `index` stands for the NUL-terminated text. Reads no byte beyond its NUL.
  [[nodiscard]] bool matches(std::uint32_t index, const char* text) const;

  // The same two for names of which many differ only far behind (kernels'): where the text is cut, its last nine bytes
  // are '~' and the hash of all of it.
  std::uint32_t intern_distinct(const char* text);
  [[nodiscard]] bool matches_distinct(std::uint32_t index, const char* text) const;

  [[nodiscard]] bool valid(std::uint32_t index) const;
  // REQUIRES: valid(index). Not NUL-terminated.
  [[nodiscard]] const record::NameEntry& entry(std::uint32_t index) const { return entries_[index]; }

 private:
  struct Wanted;
  [[nodiscard]] static bool same(const record::NameEntry& entry, const Wanted& wanted);
  bool add(record::NameEntry& entry, const Wanted& wanted);
  std::uint32_t find_or_add(const Wanted& wanted);

  record::NameEntry* entries_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::atomic<std::uint32_t> used_{0};
};

// Handles that NVTX hands out for domains and registered strings. A handle is the index of a text in private memory, so
// it stays valid without an agent, across an agent's restart and in a forked child; the ring's index of the same text
// is looked up once a ring. Any thread may call any method.

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
