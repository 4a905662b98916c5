#include "kernels/host_waits.hpp"

#include <algorithm>
#include <iterator>

namespace trimtab::agent {

void HostWaits::add(For what, std::uint64_t begin_ns, std::uint64_t end_ns) {
  if (waits_.size() >= kMost) waits_.pop_front();
  auto place = waits_.end();
  while (place != waits_.begin() && std::prev(place)->begin_ns > begin_ns) --place;
  waits_.insert(place, {begin_ns, end_ns, what});
}

HostWaits::Times HostWaits::within(std::uint64_t begin_ns, std::uint64_t end_ns) {
  while (!waits_.empty() && waits_.front().end_ns <= begin_ns) waits_.pop_front();
  Times times;
  std::uint64_t data_until = begin_ns;
  std::uint64_t any_until = begin_ns;
  std::uint64_t any_ns = 0;
  for (auto wait = waits_.begin(); wait != waits_.end() && wait->begin_ns < end_ns; ++wait) {
    const std::uint64_t until = std::min(wait->end_ns, end_ns);
    const auto take = [&](std::uint64_t& counted_until, std::uint64_t& sum) {
      const std::uint64_t from = std::max(wait->begin_ns, counted_until);
      if (until > from) sum += until - from;
      counted_until = std::max(counted_until, until);
    };
    if (wait->what == For::kData) take(data_until, times.data_ns);
    take(any_until, any_ns);
  }
  times.device_ns = any_ns - times.data_ns;
  return times;
}

}  // namespace trimtab::agent
