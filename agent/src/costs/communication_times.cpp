#include "costs/communication_times.hpp"

#include <algorithm>

namespace trimtab::agent {

void CommunicationTimes::add(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint32_t thread) {
  if (end_ns <= begin_ns) return;
  if (times_.size() >= kMost) {
    order();
    times_.erase(times_.begin(), times_.begin() + kMost / 2);
    ordered_ = times_.size();
  }
  longest_ns_ = std::max(longest_ns_, end_ns - begin_ns);
  times_.push_back({begin_ns, end_ns, thread});
}

void CommunicationTimes::order() {
  if (ordered_ == times_.size()) return;
  std::sort(times_.begin(), times_.end(), [](const Time& a, const Time& b) { return a.begin_ns < b.begin_ns; });
  ordered_ = times_.size();
}

std::uint64_t CommunicationTimes::beside(std::uint64_t begin_ns, std::uint64_t end_ns,
                                         std::optional<std::uint32_t> but) {
  order();
  const std::uint64_t earliest = begin_ns - std::min(begin_ns, longest_ns_);
  auto one = std::lower_bound(times_.begin(), times_.end(), earliest,
                              [](const Time& time, std::uint64_t ns) { return time.begin_ns < ns; });
  std::uint64_t sum = 0;
  for (; one != times_.end() && one->begin_ns < end_ns; ++one) {
    const std::uint64_t from = std::max(one->begin_ns, begin_ns);
    const std::uint64_t until = std::min(one->end_ns, end_ns);
    if (until > from && one->thread != but) sum += until - from;
  }
  return sum;
}

bool CommunicationTimes::ran_beside(std::uint64_t begin_ns, std::uint64_t end_ns, std::optional<std::uint32_t> but) {
  return more_than_slight(beside(begin_ns, end_ns, but), end_ns - std::min(begin_ns, end_ns));
}

void CommunicationTimes::forget_until(std::uint64_t ns) {
  order();
  std::erase_if(times_, [ns](const Time& time) { return time.end_ns <= ns; });
  ordered_ = times_.size();
  longest_ns_ = 0;
  for (const Time& time : times_) longest_ns_ = std::max(longest_ns_, time.end_ns - time.begin_ns);
}

}  // namespace trimtab::agent
