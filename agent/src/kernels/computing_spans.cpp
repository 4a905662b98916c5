#include "kernels/computing_spans.hpp"

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

}  // namespace trimtab::agent
