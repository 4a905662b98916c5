#pragma once

// When a rank's host waited, and for what: for the next batch, or in a call until the device is done. Bounded: of many
// waits the oldest are forgotten. Pure. Single-threaded.

#include <cstdint>
#include <deque>

namespace trimtab::agent {

class HostWaits final {
 public:
  static constexpr std::size_t kMost = 4096;

  enum class For : std::uint8_t { kData, kDevice };
  // In almost any order.
  void add(For what, std::uint64_t begin_ns, std::uint64_t end_ns);
  struct Times {
    std::uint64_t data_ns = 0;
    std::uint64_t device_ns = 0;  // and not for data
  };
  // Of this time, so much. Times that are asked for go forward: what ended before is forgotten.
  [[nodiscard]] Times within(std::uint64_t begin_ns, std::uint64_t end_ns);

 private:
  struct Wait {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
    For what;
  };
  std::deque<Wait> waits_;  // by their beginnings
};

}  // namespace trimtab::agent
