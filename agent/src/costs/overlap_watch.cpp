#include "costs/overlap_watch.hpp"

namespace trimtab::agent {

namespace {

// Below: as good as nothing (stamps of two streams are not exact).
constexpr double kNothing = 0.01;
constexpr double kEnough = 0.2;
constexpr double kMostly = 0.95;
constexpr double kOneClass = 0.8;

double part(std::uint64_t time, const DeviceInterval& of) {
  return static_cast<double>(time) / static_cast<double>(of.length_ns());
}

}  // namespace

const std::vector<OverlapSeen>& OverlapWatch::add(const DeviceInterval& interval) {
  seen_.clear();
  const std::uint64_t now = interval.begin_ns;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (running_[i].interval.end_ns <= now) {
      finish(running_[i]);
    } else {
      if (kept != i) running_[kept] = running_[i];
      ++kept;
    }
  }
  running_.resize(kept);
  if (interval.end_ns == interval.begin_ns) return seen_;
  if (running_.size() >= kMostAtOnce) {
    counters_.crowded += running_.size();
    running_.clear();
  }
  Running fresh;
  fresh.interval = interval;
  for (Running& other : running_) {
    if (!interval.shares_device(other.interval)) continue;
    note(other, interval, now);
    note(fresh, other.interval, now);
  }
  running_.push_back(fresh);
  return seen_;
}

// `other` ran beside it from `from_ns` on, until one of the two ended.
void OverlapWatch::note(Running& running, const DeviceInterval& other, std::uint64_t from_ns) {
  const std::uint64_t until = std::min(running.interval.end_ns, other.end_ns);
  if (other.activity == Activity::kCopy) {
    running.copy_ns += until - from_ns;
  } else if (other.activity == Activity::kComputation) {
    const std::uint64_t from = std::max(from_ns, running.computed_until);
    if (until <= from) return;
    running.computation_ns += until - from;
    running.by_class[static_cast<std::size_t>(other.kernel_class)] += until - from;
    running.computed_until = until;
  } else if (running.communication_count < kMostCommunications) {
    running.communications[running.communication_count++] = {from_ns, until, other.subject};
  } else {
    running.too_many = true;
  }
}

void OverlapWatch::finish(const Running& running) {
  const DeviceInterval& interval = running.interval;
  if (interval.activity == Activity::kCopy) return;
  const bool computes = interval.activity == Activity::kComputation;
  const bool computation = part(running.computation_ns, interval) > kNothing;
  std::uint64_t communicated = 0;
  for (std::uint8_t i = 0; i < running.communication_count; ++i) {
    communicated += running.communications[i].end_ns - running.communications[i].begin_ns;
  }
  const bool communication = running.too_many || part(communicated, interval) > kNothing;
  OverlapSeen seen;
  seen.interval = interval;
  if (part(running.copy_ns, interval) > kNothing || (computes && computation)) {
    ++counters_.crowded;
  } else if (!computation && !communication) {
    ++counters_.alone;
    seen_.push_back(seen);
  } else if (computation && communication) {
    ++counters_.mixed;
  } else if (computation ? beside_computation(running, seen) : beside_communication(running, seen)) {
    ++counters_.beside;
    seen_.push_back(seen);
  }
}

bool OverlapWatch::beside_computation(const Running& running, OverlapSeen& seen) {
  if (part(running.computation_ns, running.interval) < kEnough) {
    ++counters_.slight;
    return false;
  }
  seen.beside = OverlapSeen::Beside::kComputation;
  seen.beside_ns = running.computation_ns;
  const auto most = std::ranges::max_element(running.by_class);
  seen.kernel_class = static_cast<KernelClass>(most - running.by_class.begin());
  seen.one_class = static_cast<double>(*most) >= kOneClass * static_cast<double>(running.computation_ns);
  return true;
}

// One all the time, or the same two together all the time.
bool OverlapWatch::beside_communication(const Running& running, OverlapSeen& seen) {
  const auto begin = running.communications.begin();
  const auto end = begin + running.communication_count;
  const bool one = std::all_of(begin, end, [&](const Communication& c) { return c.subject == begin->subject; });
  std::uint64_t single = 0;  // time beside exactly one
  std::uint64_t twice = 0;   // beside exactly two
  std::uint64_t more = 0;
  std::array<std::uint64_t, 2 * kMostCommunications> edges{};
  std::size_t count = 0;
  for (auto c = begin; c != end; ++c) {
    edges[count++] = c->begin_ns;
    edges[count++] = c->end_ns;
  }
  std::sort(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 1; i < count; ++i) {
    const auto at_once = std::count_if(
        begin, end, [&](const Communication& c) { return c.begin_ns <= edges[i - 1] && edges[i] <= c.end_ns; });
    (at_once == 1 ? single : at_once == 2 ? twice : more) += at_once == 0 ? 0 : edges[i] - edges[i - 1];
  }
  const std::uint64_t total = single + twice + more;
  const auto mostly = [&](std::uint64_t time) {
    return static_cast<double>(time) >= kMostly * static_cast<double>(total);
  };
  const bool two = running.communication_count == 2 && mostly(twice);
  if (running.too_many || !((one && mostly(single)) || two)) {
    ++counters_.mixed;
    return false;
  }
  if (part(total, running.interval) < kEnough) {
    ++counters_.slight;
    return false;
  }
  seen.beside = OverlapSeen::Beside::kCommunication;
  seen.beside_ns = total;
  seen.communication_count = two ? 2 : 1;
  seen.communications = {begin->subject, two ? (begin + 1)->subject : 0};
  if (two && seen.communications[0] > seen.communications[1]) {
    std::swap(seen.communications[0], seen.communications[1]);
  }
  return true;
}

}  // namespace trimtab::agent
