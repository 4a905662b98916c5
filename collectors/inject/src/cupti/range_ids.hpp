#pragma once

// Numbers for ranges, given to CUPTI on the launching thread, which hands them back with each kernel that was launched
// while the range was the innermost: so a kernel finds its operator. Any thread may call any method; ids are only for
// ranges that begin and end on one thread.

#include <atomic>
#include <cstdint>

#include "cupti_library.hpp"

namespace trimtab::inject::cupti {

class RangeIds {
 public:
  // After that, push() gives ids. `library` must correlate and outlive us.
  void begin(const Library& library) {
    library_ = &library;
    on_.store(true, std::memory_order_release);
  }
  void pause() { on_.store(false, std::memory_order_release); }

  // The id of a range that is being opened; 0 while nothing is recorded.
  std::uint32_t push() {
    if (!on_.load(std::memory_order_acquire)) [[likely]]
      return 0;
    return push_next();
  }
  // A range with an id ends; it was the innermost of its thread that has one.
  void pop();
  // It was not the innermost: puts an id that pop() took out back in.
  void push_again(std::uint32_t id);

 private:
  std::uint32_t push_next();

  std::atomic<bool> on_{false};
  std::atomic<std::uint32_t> last_{0};
  const Library* library_ = nullptr;
};

}  // namespace trimtab::inject::cupti
