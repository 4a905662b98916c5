#pragma once

// Stretches of time in which a process's device records are not complete: collectors that lowered their detail
// (kWindow) and rings that overflowed. Sums over such a time would be too small. Bounded: of many windows the oldest
// are forgotten. Pure. Single-threaded.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trimtab::agent {

class LostWindows final {
 public:
  static constexpr std::size_t kMost = 4096;

  // Windows that touch become one.
  void add(std::uint64_t begin_ns, std::uint64_t end_ns);
  // Whether some of [begin_ns, end_ns] is lost.
  [[nodiscard]] bool overlap(std::uint64_t begin_ns, std::uint64_t end_ns) const;
  [[nodiscard]] std::uint64_t added() const { return added_; }
  [[nodiscard]] std::uint64_t lost_ns() const { return lost_ns_; }

 private:
  struct Window {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };
  std::vector<Window> windows_;  // apart from each other, in order
  std::uint64_t added_ = 0;
  std::uint64_t lost_ns_ = 0;
};

}  // namespace trimtab::agent
