#include "card/traces/work_sweep.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace trimtab::coordinator {

std::int64_t WorkShares::communication_ns() const {
  std::int64_t sum = 0;
  for (std::size_t kind = 0; kind < kTracedKinds; ++kind) {
    if (communicates(static_cast<TracedKind>(kind))) sum += exposed_ns[kind];
  }
  return sum;
}

namespace {

// The order in which things count. Work's numbers, and kTracedKinds for data.
constexpr std::size_t kComputes = static_cast<std::size_t>(TracedKind::kComputation);
constexpr std::size_t kCopies = static_cast<std::size_t>(TracedKind::kCopy);
constexpr std::array<std::size_t, kTracedKinds + 1> kOrder = [] {
  std::array<std::size_t, kTracedKinds + 1> order{};
  std::size_t place = 0;
  order[place++] = kTracedKinds;
  for (std::size_t kind = 0; kind < kTracedKinds; ++kind) {
    if (kind != kCopies) order[place++] = kind;
  }
  order[place] = kCopies;
  return order;
}();

}  // namespace

// The first of what runs now, in the order in which things count, from this place of it on.
std::size_t WorkSweep::running(std::size_t place) const {
  while (place < kOrder.size() && until_[kOrder[place]] <= now_ns_) ++place;
  return place;
}

// From now_ns_ on, one stretch after the other in which the same things count. `shares` = null: nothing is counted.
void WorkSweep::advance(std::int64_t to_ns, WorkShares* shares) {
  while (now_ns_ < to_ns) {
    const std::size_t first = running(0);
    if (first == kOrder.size()) {
      if (shares != nullptr) shares->idle_ns += to_ns - now_ns_;
      now_ns_ = to_ns;
      return;
    }
    // What counts later changes nothing until this ends, but for communication that computation hides.
    const std::size_t what = kOrder[first];
    std::int64_t next_ns = std::min(to_ns, until_[what]);
    const std::size_t behind = what == kComputes ? running(first + 1) : kOrder.size();
    const bool hides = behind < kOrder.size() && kOrder[behind] != kCopies;
    if (hides) next_ns = std::min(next_ns, until_[kOrder[behind]]);
    if (shares != nullptr) {
      const std::int64_t length = next_ns - now_ns_;
      (what == kData ? shares->data_ns : shares->exposed_ns[what]) += length;
      if (hides) shares->hidden_ns[kOrder[behind]] += length;
    }
    now_ns_ = next_ns;
  }
}

// Of the idling before the next work, up to this time.
void WorkSweep::count_waiting_for_host(std::int64_t end_ns, WorkShares& shares) const {
  const std::int64_t idle_ns = *std::ranges::max_element(until_);
  if (next_ == rank_.work.size() || rank_.work[next_].launched_ns <= idle_ns) return;
  shares.for_host_ns += std::max<std::int64_t>(end_ns - std::max(idle_ns, begin_ns_), 0);
}

void WorkSweep::take_until(std::int64_t end_ns, WorkShares* shares) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  while (true) {
    const bool has_data = !rank_.on_device && next_data_ < rank_.data.size();
    const std::int64_t work_ns = next_ < rank_.work.size() ? rank_.work[next_].begin_ns : kNever;
    const std::int64_t data_ns = has_data ? rank_.data[next_data_].begin_ns : kNever;
    if (std::min(work_ns, data_ns) >= end_ns) break;
    advance(std::min(work_ns, data_ns), shares);
    if (data_ns <= work_ns) {
      until_[kData] = std::max(until_[kData], rank_.data[next_data_++].end_ns);
      continue;
    }
    if (shares != nullptr) count_waiting_for_host(work_ns, *shares);
    const TracedWork& work = rank_.work[next_++];
    std::int64_t& until = until_[static_cast<std::size_t>(work.kind)];
    until = std::max(until, work.end_ns);
    if (shares != nullptr && work.kind == TracedKind::kComputation) {
      ++shares->kernels;
      shares->kernels_ns += work.end_ns - work.begin_ns;
    }
  }
  advance(end_ns, shares);
}

WorkShares WorkSweep::between(std::int64_t begin_ns, std::int64_t end_ns) {
  TRIMTAB_ASSERT(begin_ns <= end_ns && now_ns_ <= begin_ns, "a sweep goes forward");
  WorkShares shares;
  take_until(begin_ns, nullptr);
  begin_ns_ = begin_ns;
  take_until(end_ns, &shares);
  count_waiting_for_host(end_ns, shares);
  return shares;
}

std::int64_t covered_ns(std::span<const TracedSpan> spans, std::int64_t begin_ns, std::int64_t end_ns) {
  std::int64_t sum = 0;
  std::int64_t until = begin_ns;
  for (const TracedSpan& span : spans) {
    if (span.begin_ns >= end_ns) break;
    const std::int64_t from = std::max(span.begin_ns, until);
    const std::int64_t to = std::min(span.end_ns, end_ns);
    if (to > from) sum += to - from;
    until = std::max(until, to);
  }
  return sum;
}

}  // namespace trimtab::coordinator
