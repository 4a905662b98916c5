#include "kernels/interval_order.hpp"

#include <algorithm>

namespace trimtab::agent {

namespace {

// So many in a row mean that the clock was set back, or that one time before was wrong.
constexpr std::uint64_t kClockWasSetBack = 4096;

bool earlier(const DeviceInterval& a, const DeviceInterval& b) {
  return a.begin_ns < b.begin_ns;
}

}  // namespace

bool IntervalOrder::add(const DeviceInterval& interval) {
  if (interval.begin_ns < released_ns_) {
    ++late_;
    if (++late_in_a_row_ < kClockWasSetBack) return false;
    clear();
    ++resets_;
  }
  late_in_a_row_ = 0;
  newest_ns_ = std::max(newest_ns_, interval.end_ns);
  held_.push_back(interval);
  return true;
}

void IntervalOrder::clear() {
  held_.clear();
  first_ = sorted_ = 0;
  newest_ns_ = released_ns_ = late_in_a_row_ = 0;
}

void IntervalOrder::sort() {
  const auto begin = held_.begin() + static_cast<std::ptrdiff_t>(first_);
  const auto fresh = held_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  if (!std::is_sorted(fresh, held_.end(), earlier)) std::stable_sort(fresh, held_.end(), earlier);
  if (fresh != begin && fresh != held_.end() && earlier(*fresh, *(fresh - 1))) {
    std::inplace_merge(begin, fresh, held_.end(), earlier);
  }
  sorted_ = held_.size();
}

std::size_t IntervalOrder::settled() {
  sort();
  const std::uint64_t until = newest_ns_ > settle_ns_ ? newest_ns_ - settle_ns_ : 0;
  const auto end = std::partition_point(held_.begin() + static_cast<std::ptrdiff_t>(first_), held_.end(),
                                        [until](const DeviceInterval& interval) { return interval.begin_ns < until; });
  const auto settled = static_cast<std::size_t>(end - held_.begin());
  return full() ? std::max(settled, first_ + held() / 2) : settled;
}

void IntervalOrder::forget_released() {
  if (first_ == held_.size() || first_ >= capacity_ / 2) {
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(first_));
    sorted_ -= first_;
    first_ = 0;
  }
}

}  // namespace trimtab::agent
