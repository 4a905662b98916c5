#pragma once

// What was spent in the latest ten seconds, in slices: the slice that is half outside counts whole. Pure: time is an
// argument, and never goes back.

#include <array>
#include <cstdint>

namespace trimtab::inject::cupti {

class CostWindow {
 public:
  static constexpr std::uint64_t kWindowNs = 10'000'000'000;
  static constexpr std::uint64_t kSliceNs = 100'000'000;

  constexpr CostWindow() = default;

  void add(std::uint64_t now_ns, std::uint64_t cost_ns) {
    advance(now_ns);
    slices_[newest_ % kSlices] += cost_ns;
    sum_ns_ += cost_ns;
  }

  // Takes back what was added too much, from the newest slices first.
  void refund(std::uint64_t now_ns, std::uint64_t cost_ns) {
    advance(now_ns);
    for (std::uint64_t back = 0; back < kSlices && back <= newest_ && cost_ns > 0; ++back) {
      std::uint64_t& slice = slices_[(newest_ - back) % kSlices];
      const std::uint64_t taken = slice < cost_ns ? slice : cost_ns;
      slice -= taken;
      sum_ns_ -= taken;
      cost_ns -= taken;
    }
  }

  // In the ten seconds before `now_ns`.
  [[nodiscard]] std::uint64_t spent_ns(std::uint64_t now_ns) {
    advance(now_ns);
    return sum_ns_;
  }

 private:
  static constexpr std::uint64_t kSlices = kWindowNs / kSliceNs + 1;

  void advance(std::uint64_t now_ns) {
    const std::uint64_t now = now_ns / kSliceNs;
    if (now <= newest_) return;
    if (now - newest_ >= kSlices) {
      slices_.fill(0);
      sum_ns_ = 0;
      newest_ = now;
    }
    while (newest_ < now) {
      std::uint64_t& slice = slices_[++newest_ % kSlices];
      sum_ns_ -= slice;
      slice = 0;
    }
  }

  std::array<std::uint64_t, kSlices> slices_{};
  std::uint64_t newest_ = 0;
  std::uint64_t sum_ns_ = 0;
};

}  // namespace trimtab::inject::cupti
