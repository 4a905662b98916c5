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

}  // namespace trimtab::inject
