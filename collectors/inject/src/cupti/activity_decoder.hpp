#pragma once

// One completed buffer of CUPTI's records into the ring. No allocation, no lock; several threads may decode several
// buffers at once. A record without usable times is counted, not published. Records that come only when somebody has
// switched them on, and we have not, show that another profiler is at work.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti_library.hpp"
#include "name_table.hpp"
#include "ring_writer.hpp"

namespace trimtab::inject::cupti {

// From CUPTI's pointer to a kernel's name to its index in the ring: a fixed, open-addressed, lock-free cache, so that a
// record costs one comparison of text and no hashing. CUPTI gives all records of a kernel the same pointer; a module
// that is unloaded may leave it to another name, hence the comparison. Any thread may call any method.
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

// Of one buffer.
struct Decoded {
  std::uint64_t records = 0;      // in the buffer
  std::uint64_t kernels = 0;      // kernels, copies, memsets and graph launches among them
  std::uint64_t graphs = 0;       // graph launches among those
  std::uint64_t lost_stamps = 0;  // start or end is 0, or they are in the wrong order
  std::uint64_t foreign = 0;      // of kinds or calls that we have not switched on
  std::uint64_t overhead_ns = 0;  // that CUPTI says it has caused
  bool malformed = false;         // the iterator gave up: the buffer's rest is lost
};

// Where records go. `ring` nullptr: nowhere, they are only counted.
struct DecodeTarget {
  const RingWriter* ring = nullptr;
  RingNames names;
};

class ActivityDecoder {
 public:
  constexpr ActivityDecoder() = default;
  // REQUIRES: `library` and `names` outlive the decoder.
  ActivityDecoder(const Library& library, KernelNames& names) : library_(&library), names_(&names) {}

  [[nodiscard]] Decoded decode(std::uint8_t* buffer, std::size_t valid_bytes, const DecodeTarget& target) const;

 private:
  const Library* library_ = nullptr;
  KernelNames* names_ = nullptr;
};

}  // namespace trimtab::inject::cupti
