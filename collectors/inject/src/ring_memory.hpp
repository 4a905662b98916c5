#pragma once

// The memfd behind a ring: sealed against resizing, so that neither side can make the other fault.

#include <cstddef>

#include "owned_descriptor.hpp"

namespace trimtab::inject {

struct RingMemory {
  void* address = nullptr;  // nullptr: could not be had
  std::size_t bytes = 0;
  OwnedDescriptor descriptor;
};

// All pages are allocated here: a machine without memory says so now instead of by a signal later.
RingMemory create_ring_memory(std::size_t bytes);

}  // namespace trimtab::inject
