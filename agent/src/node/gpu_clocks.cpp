#include "node/gpu_clocks.hpp"

#include <algorithm>

namespace trimtab::agent {

namespace {

// Of nothing: 0.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void GpuClocks::add(const std::vector<DeviceSpeed>& speeds, Nanoseconds at) {
  for (const DeviceSpeed& one : speeds) {
    std::deque<Look>& of = looks_[one.device];
    if (of.size() >= kMostLooks) of.pop_front();
    of.push_back({at, one.ms});
  }
}

bool GpuClocks::disturbed_since(Nanoseconds since) const {
  return std::ranges::any_of(looks_, [since](const auto& device) {
    std::vector<double> all;
    std::vector<double> now;
    for (const Look& look : device.second) {
      all.push_back(look.ms);
      if (look.at >= since) now.push_back(look.ms);
    }
    return (1 - kDisturbs) * median(now) > median(all);
  });
}

}  // namespace trimtab::agent
