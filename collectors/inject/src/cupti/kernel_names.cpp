#include "kernel_names.hpp"

namespace trimtab::inject::cupti {

namespace {

std::uint32_t first_entry(const char* text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text);
  return static_cast<std::uint32_t>((address * 0x9e3779b97f4a7c15ULL) >> 40) & (KernelNames::kCapacity - 1);
}

}  // namespace

std::uint32_t KernelNames::index_of(const char* text, const RingNames& ring) {
  if (text == nullptr) return 0;
  std::uint32_t at = first_entry(text);
  Entry* free = nullptr;
  for (std::uint32_t probe = 0; probe < kProbes; ++probe, at = (at + 1) & (kCapacity - 1)) {
    Entry& entry = entries_[at];
    const char* known_text = entry.text.load(std::memory_order_acquire);
    if (known_text == nullptr) {
      free = &entry;
      break;
    }
    if (known_text != text) continue;
    const std::uint64_t known = entry.known.load(std::memory_order_relaxed);
    const auto index = static_cast<std::uint32_t>(known);
    if (known >> 32 == ring.generation && index != 0 && ring.table->matches_distinct(index, text)) [[likely]]
      return index;
    free = &entry;  // another ring, or another name at this address
    break;
  }
  const std::uint32_t index = ring.table->intern_distinct(text);
  if (free == nullptr || index == 0) return index;  // a crowded neighbourhood is only slow
  const char* expected = nullptr;
  if (free->text.load(std::memory_order_relaxed) == text ||
      free->text.compare_exchange_strong(expected, text, std::memory_order_acq_rel) || expected == text) {
    free->known.store(std::uint64_t{ring.generation} << 32 | index, std::memory_order_relaxed);
  }
  return index;
}

}  // namespace trimtab::inject::cupti
