#include "kernels/time_spans.hpp"

#include <algorithm>
#include <iterator>

namespace trimtab::agent {

void ComputingSpans::add(std::uint64_t begin_ns, std::uint64_t end_ns) {
  if (end_ns <= begin_ns) return;
  if (fresh_.size() >= kMost) settle();
  fresh_.push_back({begin_ns, end_ns});
  known_until_ = std::max(known_until_, end_ns);
}

// What came since the last time, and the known spans that it may touch, once more in order.
void ComputingSpans::settle() {
  if (fresh_.empty()) return;
  const auto by_begin = [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; };
  const std::uint64_t first_ns = std::min_element(fresh_.begin(), fresh_.end(), by_begin)->begin_ns;
  const auto touched = std::lower_bound(spans_.begin(), spans_.end(), first_ns,
                                        [](const Span& one, std::uint64_t ns) { return one.end_ns + kGapNs < ns; });
  fresh_.insert(fresh_.end(), touched, spans_.end());
  spans_.erase(touched, spans_.end());
  std::sort(fresh_.begin(), fresh_.end(), by_begin);
  for (const Span& one : fresh_) {
    const bool joins = !spans_.empty() && one.begin_ns <= spans_.back().end_ns + kGapNs;
    if (joins) {
      spans_.back().end_ns = std::max(spans_.back().end_ns, one.end_ns);
    } else {
      spans_.push_back(one);
    }
  }
  fresh_.clear();
  if (spans_.size() <= kMost) return;
  const auto kept = spans_.end() - static_cast<std::ptrdiff_t>(kMost / 2);
  forgotten_until_ = std::prev(kept)->end_ns;
  spans_.erase(spans_.begin(), kept);
}

std::uint64_t ComputingSpans::computed(std::uint64_t begin_ns, std::uint64_t end_ns) {
  settle();
  auto span = std::lower_bound(spans_.begin(), spans_.end(), begin_ns,
                               [](const Span& one, std::uint64_t ns) { return one.end_ns <= ns; });
  std::uint64_t sum = 0;
  for (; span != spans_.end() && span->begin_ns < end_ns; ++span) {
    sum += std::min(span->end_ns, end_ns) - std::max(span->begin_ns, begin_ns);
  }
  return sum;
}

bool ComputingSpans::cover(std::uint64_t begin_ns, std::uint64_t end_ns) {
  settle();
  return !spans_.empty() && begin_ns >= forgotten_until_ && begin_ns >= spans_.front().begin_ns &&
         end_ns <= known_until_;
}

void LostWindows::add(std::uint64_t begin_ns, std::uint64_t end_ns) {
  ++added_;
  const auto first = std::partition_point(windows_.begin(), windows_.end(),
                                          [&](const Window& window) { return window.end_ns < begin_ns; });
  auto last = first;
  Window merged{begin_ns, end_ns};
  for (; last != windows_.end() && last->begin_ns <= end_ns; ++last) {
    merged = {std::min(merged.begin_ns, last->begin_ns), std::max(merged.end_ns, last->end_ns)};
    lost_ns_ -= last->end_ns - last->begin_ns;
  }
  lost_ns_ += merged.end_ns - merged.begin_ns;
  windows_.insert(windows_.erase(first, last), merged);
  if (windows_.size() > kMost) windows_.erase(windows_.begin());
}

bool LostWindows::overlap(std::uint64_t begin_ns, std::uint64_t end_ns) const {
  const auto found = std::partition_point(windows_.begin(), windows_.end(),
                                          [&](const Window& window) { return window.end_ns < begin_ns; });
  return found != windows_.end() && found->begin_ns <= end_ns;
}

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
