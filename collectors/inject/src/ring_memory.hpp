#pragma once

// Descriptors in somebody else's process, and the memfd behind a ring: sealed against resizing, so that neither side
// can make the other fault.

#include <sys/types.h>

#include <cstddef>

namespace trimtab::inject {

// Programs close descriptors that they do not know (daemons, `closefrom`), and the number may then be theirs: so before
// each use and before closing we look whether it still is our file. Programs that run with their standard streams
// closed write to 0, 1 and 2 all the same: so ours are above these. A plain value without destructor: a library that
// stays in the process until its end must not act in static destruction.
class OwnedDescriptor {
 public:
  constexpr OwnedDescriptor() = default;
  // Takes `descriptor` over, at another number where it is 0, 1 or 2. Empty where there is none or no room.
  static OwnedDescriptor adopt(int descriptor);

  // The number, or -1 when there is none or it is no longer ours.
  [[nodiscard]] int get() const;
  void close();

 private:
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

struct RingMemory {
  void* address = nullptr;  // nullptr: could not be had (memory, descriptors, the limit on files' sizes)
  std::size_t bytes = 0;
  OwnedDescriptor descriptor;
};

// All pages are allocated here: a machine without memory says so now instead of by a signal later. A process that may
// not have a file so large gets no signal either (SIGXFSZ would end it).
RingMemory create_ring_memory(std::size_t bytes);

}  // namespace trimtab::inject
