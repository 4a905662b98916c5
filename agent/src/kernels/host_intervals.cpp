#include "kernels/host_intervals.hpp"

#include <algorithm>

namespace trimtab::agent {

namespace {

constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostRemembered = 512;  // of a thread

}  // namespace

std::optional<Activity> HostIntervals::activity_of(const RangeRecord& range) {
  if (range.domain != "trimtab") return std::nullopt;
  if (range.name.starts_with("op/") || range.name == "optimizer") return Activity::kComputation;
  if (range.name.starts_with("comm/") || range.name.starts_with("transfer/")) return Activity::kCommunication;
  return std::nullopt;
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
