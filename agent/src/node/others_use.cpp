#include "node/others_use.hpp"

#include <algorithm>
#include <map>

namespace trimtab::agent {

Nanoseconds time_of_trees(const std::vector<host::ProcessUse>& processes, const std::set<pid_t>& roots) {
  std::multimap<pid_t, const host::ProcessUse*> children;
  for (const host::ProcessUse& one : processes) children.emplace(one.parent, &one);
  Nanoseconds sum{0};
  std::set<pid_t> seen;
  std::vector<pid_t> next(roots.begin(), roots.end());
  for (const host::ProcessUse& one : processes) {
    if (roots.contains(one.process)) sum += one.cpu_time;
  }
  while (!next.empty()) {
    const pid_t parent = next.back();
    next.pop_back();
    if (!seen.insert(parent).second) continue;
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      if (!roots.contains(child->second->process)) sum += child->second->cpu_time;
      next.push_back(child->second->process);
    }
  }
  return sum;
}

void OthersUse::add(const Look& look) {
  if (looks_.size() >= kMostLooks) looks_.pop_front();
  looks_.push_back(look);
}

double OthersUse::share_since(Nanoseconds since) const {
  if (looks_.size() < 2) return 0;
  auto first = std::find_if(looks_.rbegin(), looks_.rend(), [since](const Look& one) { return one.at <= since; });
  const Look& begin = first == looks_.rend() ? looks_.front() : *first;
  const Look& end = looks_.back();
  const Nanoseconds wall = end.at - begin.at;
  if (wall <= Nanoseconds(0) || end.machine.processors <= 0) return 0;
  const Nanoseconds own = std::max(Nanoseconds(0), end.own - begin.own);
  const Nanoseconds others = end.machine.busy - begin.machine.busy - own;
  return std::max(0.0,
                  static_cast<double>(others.count()) / static_cast<double>(wall.count()) / end.machine.processors);
}

}  // namespace trimtab::agent
