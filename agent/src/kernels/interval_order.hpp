#pragma once

// Puts a device's intervals into the order of their beginnings: CUPTI hands records over in no order, some a second
// late. An interval is held until others have been seen that ended `settle_ns` later, or until `capacity` are held;
// then it is released, and what comes later although it began earlier is dropped and counted. Memory is bounded by
// `capacity`. Pure. Single-threaded.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device_interval.hpp"

namespace trimtab::agent {

class IntervalOrder final {
 public:
  explicit IntervalOrder(std::uint64_t settle_ns = 2'500'000'000, std::size_t capacity = std::size_t{1} << 18)
      : settle_ns_(settle_ns), capacity_(capacity) {}

  // False when it came too late. REQUIRES: !full().
  bool add(const DeviceInterval& interval);
  [[nodiscard]] bool full() const { return held_.size() - first_ >= capacity_; }

  // Gives to `sink`, in order, what has settled, of a full order also the older half; at most so many at once.
  static constexpr std::size_t kMostReleased = std::size_t{1} << 15;
  template <typename Sink>
  void release(const Sink& sink) {
    release_before(std::min(settled(), first_ + kMostReleased), sink);
  }
  // Gives all that is held, in order.
  template <typename Sink>
  void finish(const Sink& sink) {
    sort();
    release_before(held_.size(), sink);
  }
  // Forgets what is held; what comes next may be of any time.
  void clear();

  // How often the clock was found set back: what is held was forgotten then.
  [[nodiscard]] std::uint64_t resets() const { return resets_; }
  [[nodiscard]] std::uint64_t late() const { return late_; }
  [[nodiscard]] std::size_t held() const { return held_.size() - first_; }

 private:
  // The index of the first interval that stays.
  [[nodiscard]] std::size_t settled();
  void sort();
  template <typename Sink>
  void release_before(std::size_t end, const Sink& sink) {
    for (; first_ < end; ++first_) {
      released_ns_ = held_[first_].begin_ns;
      sink(held_[first_]);
    }
    forget_released();
  }
  void forget_released();

  std::uint64_t settle_ns_;
  std::size_t capacity_;
  std::vector<DeviceInterval> held_;  // [first_, sorted_) in order, the rest as it came
  std::size_t first_ = 0;
  std::size_t sorted_ = 0;
  std::uint64_t newest_ns_ = 0;
  std::uint64_t released_ns_ = 0;
  std::uint64_t late_ = 0;
  std::uint64_t resets_ = 0;
  std::uint64_t late_in_a_row_ = 0;
};

}  // namespace trimtab::agent
