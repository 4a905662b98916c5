#include "kernels/device_interval.hpp"

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

namespace {

constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostRemembered = 512;  // of a thread

}  // namespace

std::optional<Activity> HostIntervals::activity_of(const RangeRecord& range) {
  using Kind = RangeName::Kind;
  if (range.range.communicates()) return Activity::kCommunication;
  const bool computes = range.range.kind == Kind::kOperator || range.range.kind == Kind::kOptimizer;
  return computes ? std::optional(Activity::kComputation) : std::nullopt;
}

const std::vector<DeviceInterval>& HostIntervals::add(const RangeRecord& range, Activity activity,
                                                      std::uint32_t subject) {
  pieces_.clear();
  if (communications_.size() >= kMostThreads && !communications_.contains(range.thread)) communications_.clear();
  std::vector<Communication>& inside = communications_[range.thread];
  if (activity == Activity::kCommunication) {
    if (inside.size() >= kMostRemembered) {
      inside.erase(inside.begin(), inside.begin() + static_cast<std::ptrdiff_t>(kMostRemembered / 2));
    }
    inside.push_back({range.begin_ns, range.end_ns});
    pieces_.push_back({range.begin_ns, range.end_ns, range.thread, subject, activity});
    return pieces_;
  }
  // Ranges of a thread end one after the other, so those inside are the latest.
  auto first = inside.end();
  while (first != inside.begin() && std::prev(first)->end_ns > range.begin_ns) --first;
  std::uint64_t from = range.begin_ns;
  for (; first != inside.end(); ++first) {
    if (first->begin_ns > from) {
      pieces_.push_back({from, std::min(first->begin_ns, range.end_ns), range.thread, subject, activity});
    }
    from = std::max(from, first->end_ns);
  }
  if (range.end_ns > from) pieces_.push_back({from, range.end_ns, range.thread, subject, activity});
  return pieces_;
}

}  // namespace trimtab::agent
