#include "kernels/lost_windows.hpp"

#include <algorithm>

namespace trimtab::agent {

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

}  // namespace trimtab::agent
