#include "name_table.hpp"

#include <cstring>

namespace trimtab::inject {

namespace {

constexpr std::uint32_t kFree = 0;
constexpr std::uint32_t kWriting = 1;
constexpr std::uint32_t kReady = 2;
constexpr std::size_t kHashDigits = 8;
constexpr std::size_t kDistinctBytes = record::kNameBytes - kHashDigits - 1;  // of the text itself

std::uint32_t hash_of(const char* text, std::size_t length) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (std::size_t i = 0; i < length; ++i) hash = (hash ^ static_cast<unsigned char>(text[i])) * 16777619U;
  return hash ^ (hash >> 15);
}

}  // namespace

struct NameTable::Wanted {
  const char* text;
  std::uint16_t length;
  std::uint16_t flags;
  std::uint32_t hash;
};

bool NameTable::same(const record::NameEntry& entry, const Wanted& wanted) {
  return entry.hash == wanted.hash && entry.length == wanted.length && entry.flags == wanted.flags &&
         std::memcmp(entry.text, wanted.text, wanted.length) == 0;
}

bool NameTable::add(record::NameEntry& entry, const Wanted& wanted) {
  std::uint32_t free = kFree;
  if (!entry.state.compare_exchange_strong(free, kWriting, std::memory_order_relaxed)) return false;
  std::memcpy(entry.text, wanted.text, wanted.length);
  entry.length = wanted.length;
  entry.flags = wanted.flags;
  entry.hash = wanted.hash;
  entry.state.store(kReady, std::memory_order_release);
  used_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::uint32_t NameTable::intern(const char* text, std::size_t length) {
  if (capacity_ == 0) return 0;
  const bool cut = length > record::kNameBytes;
  const std::size_t kept = cut ? record::kNameBytes : length;
  const auto flags = static_cast<std::uint16_t>(cut ? record::kNameCut : 0);
  return find_or_add({text, static_cast<std::uint16_t>(kept), flags, hash_of(text, kept)});
}

std::uint32_t NameTable::intern_distinct(const char* text) {
  const std::size_t length = std::strlen(text);
  if (length <= record::kNameBytes) return intern(text, length);
  if (capacity_ == 0) return 0;
  char cut[record::kNameBytes];
  std::memcpy(cut, text, kDistinctBytes);
  cut[kDistinctBytes] = '~';
  std::uint32_t hash = hash_of(text, length);
  for (std::size_t i = record::kNameBytes; i-- > kDistinctBytes + 1; hash >>= 4) cut[i] = "0123456789abcdef"[hash & 15];
  return find_or_add({cut, record::kNameBytes, record::kNameCut, hash_of(cut, record::kNameBytes)});
}

std::uint32_t NameTable::find_or_add(const Wanted& wanted) {
  const bool full = used_.load(std::memory_order_relaxed) >= capacity_ - capacity_ / 4;
  std::uint32_t index = wanted.hash & (capacity_ - 1);
  for (std::uint32_t probe = 0; probe < capacity_; ++probe, index = (index + 1) & (capacity_ - 1)) {
    if (index == 0) continue;  // reserved
    record::NameEntry& entry = entries_[index];
    std::uint32_t state = entry.state.load(std::memory_order_acquire);
    if (state == kFree) {
      if (full) return 0;
      if (add(entry, wanted)) return index;
      state = entry.state.load(std::memory_order_acquire);
    }
    if (state == kReady && same(entry, wanted)) return index;
  }
  return 0;
}

bool NameTable::matches(std::uint32_t index, const char* text) const {
  const record::NameEntry& entry = entries_[index];
  const std::size_t length = entry.length <= record::kNameBytes ? entry.length : record::kNameBytes;
  const bool cut = (entry.flags & record::kNameCut) != 0;
  return std::strncmp(text, entry.text, length) == 0 && (text[length] != '\0') == cut;
}

bool NameTable::matches_distinct(std::uint32_t index, const char* text) const {
  if (!valid(index)) return false;
  const record::NameEntry& entry = entries_[index];
  if ((entry.flags & record::kNameCut) == 0) return matches(index, text);
  return std::strncmp(text, entry.text, kDistinctBytes) == 0;
}

bool NameTable::valid(std::uint32_t index) const {
  return index != 0 && index < capacity_ && entries_[index].state.load(std::memory_order_acquire) == kReady;
}

}  // namespace trimtab::inject
