#include "card/traces/step_windows.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::coordinator {

namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

// What the device did of one step.
struct Launched {
  std::int64_t first_ns = kNone;
  std::int64_t last_ns = 0;
};

StepWindow whole(const TracedRank& rank) {
  StepWindow window;
  if (rank.work.empty()) return window;
  window.begin_ns = rank.work.front().begin_ns;
  for (const TracedWork& one : rank.work) window.end_ns = std::max(window.end_ns, one.end_ns);
  window.host_begin_ns = window.begin_ns;
  window.host_end_ns = window.end_ns;
  window.wall_ns = window.end_ns - window.begin_ns;
  return window;
}

StepWindow of_host(const TracedStep& step) {
  return {step.number, step.end_ns - step.begin_ns, step.begin_ns, step.end_ns, step.begin_ns, step.end_ns};
}

std::vector<Launched> launched_in(const TracedRank& rank) {
  std::vector<Launched> all(rank.steps.size());
  for (const TracedWork& work : rank.work) {
    if (work.launched_ns == TracedWork::kNotTold) continue;
    const auto after = std::ranges::upper_bound(rank.steps, work.launched_ns, {}, &TracedStep::begin_ns);
    if (after == rank.steps.begin()) continue;
    const auto place = static_cast<std::size_t>(after - rank.steps.begin()) - 1;
    if (work.launched_ns > rank.steps[place].end_ns) continue;
    all[place].first_ns = std::min(all[place].first_ns, work.begin_ns);
    all[place].last_ns = std::max(all[place].last_ns, work.end_ns);
  }
  return all;
}

}  // namespace

std::vector<StepWindow> step_windows(const TracedRank& rank) {
  if (rank.steps.empty()) return {whole(rank)};
  std::vector<StepWindow> windows;
  if (!rank.on_device) {
    std::ranges::transform(rank.steps, std::back_inserter(windows), of_host);
    return windows;
  }
  const std::vector<Launched> launched = launched_in(rank);
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    if (launched[i].first_ns == kNone) continue;
    StepWindow window = of_host(rank.steps[i]);
    window.begin_ns = launched[i].first_ns;
    window.end_ns = launched[i].last_ns;
    const bool followed = i + 1 < rank.steps.size() && launched[i + 1].first_ns != kNone &&
                          rank.steps[i + 1].number == rank.steps[i].number + 1;
    if (followed) window.end_ns = launched[i + 1].first_ns;
    if (!windows.empty()) window.begin_ns = std::max(window.begin_ns, windows.back().end_ns);
    if (window.end_ns > window.begin_ns) windows.push_back(window);
  }
  if (windows.empty()) std::ranges::transform(rank.steps, std::back_inserter(windows), of_host);
  return windows;
}

}  // namespace trimtab::coordinator
