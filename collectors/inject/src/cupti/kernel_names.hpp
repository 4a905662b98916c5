#pragma once

// From CUPTI's pointer to a kernel's name to its index in the ring: a fixed, open-addressed, lock-free cache, so that a
// record costs one comparison of text and no hashing. CUPTI gives all records of a kernel the same pointer; a module
// that is unloaded may leave it to another name, hence the comparison. Any thread may call any method.

#include <atomic>
#include <cstdint>

#include "handle_table.hpp"
#include "name_table.hpp"

namespace trimtab::inject::cupti {

class KernelNames {
 public:
  static constexpr std::uint32_t kCapacity = 8192;  // a power of two

  // The ring's index of `text`; 0 for nullptr and when the ring's table is full. Names of more than kNameBytes keep
  // their beginning and end in '~' and eight hexadecimal digits of the whole name's hash.
  std::uint32_t index_of(const char* text, const RingNames& ring);

 private:
  struct Entry {
    std::atomic<const char*> text{nullptr};
    std::atomic<std::uint64_t> known{0};  // generation << 32 | index
  };
  static constexpr std::uint32_t kProbes = 8;

  Entry entries_[kCapacity];
};

}  // namespace trimtab::inject::cupti
