#pragma once

// A hash table from a packed stage to its time and memory: open addressing, no allocation but when it grows.
// Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trimtab::tuner::aceso {

struct StageCost {
  double time = 0;    // us of one microbatch
  double memory = 0;  // MiB
};

struct StageKey {
  std::uint64_t range = 0;  // never 0 for a stage
  std::uint64_t how = 0;
  bool operator==(const StageKey&) const = default;
};

class StageMemo {
 public:
  StageMemo() : slots_(1024) {}

  // The slot of the key; `found` says whether its cost was known. Valid until the next call.
  [[nodiscard]] StageCost& find(const StageKey& key, bool& found) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = slots_[index_of(key)];
    found = slot.key == key;
    if (!found) {
      slot.key = key;
      ++used_;
    }
    return slot.cost;
  }

 private:
  struct Slot {
    StageKey key;
    StageCost cost;
  };

  [[nodiscard]] std::size_t index_of(const StageKey& key) const {
    std::uint64_t hash = key.range * 0x9e3779b97f4a7c15U ^ key.how * 0xbf58476d1ce4e5b9U;
    hash ^= hash >> 29;
    hash *= 0x94d049bb133111ebU;
    hash ^= hash >> 32;
    std::size_t index = hash & (slots_.size() - 1);
    while (slots_[index].key.range != 0 && !(slots_[index].key == key)) index = (index + 1) & (slots_.size() - 1);
    return index;
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key.range != 0) slots_[index_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two
  std::size_t used_ = 0;
};

}  // namespace trimtab::tuner::aceso
