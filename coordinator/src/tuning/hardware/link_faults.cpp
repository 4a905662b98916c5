#include "tuning/hardware/link_faults.hpp"

#include <algorithm>

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kNamed = 3;  // in a text

}  // namespace

std::string to_text(const std::vector<LinkFault>& faults) {
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kNamed); ++i) {
    const LinkFault& one = faults[i];
    text += (i == 0 ? "" : "; ") + one.link + " of node " + one.node + " " + one.what;
  }
  if (faults.size() > kNamed) text += "; and " + std::to_string(faults.size() - kNamed) + " links more";
  return text;
}

double confidence_of(const std::vector<LinkFault>& faults) {
  double least = 1;
  for (const LinkFault& one : faults) least = std::min(least, one.confidence);
  return least;
}

std::vector<LinkFault> take_faults(const std::vector<LinkFault>& told, std::int64_t step,
                                   std::vector<LinkFault>& known) {
  std::vector<LinkFault> fresh;
  std::vector<LinkFault> now = told;
  for (LinkFault& one : now) {
    const auto before = std::ranges::find_if(known, [&one](const LinkFault& other) {
      return other.node == one.node && other.link == one.link && other.reading == one.reading;
    });
    one.step = before == known.end() ? step : before->step;
    one.doubts = before != known.end() && before->doubts;
    if (before == known.end()) fresh.push_back(one);
  }
  known = std::move(now);
  return fresh;
}

std::map<NodePair, std::int32_t> doubtful_pairs(const std::vector<LinkFault>& faults,
                                                const std::vector<std::string>& nodes) {
  std::map<NodePair, std::int32_t> pairs;
  for (const LinkFault& one : faults) {
    if (!one.doubts || std::ranges::find(nodes, one.node) == nodes.end()) continue;
    for (const std::string& peer : nodes) {
      const bool crossed = peer == one.node ? one.within : one.across;
      if (crossed) pairs.try_emplace(node_pair(one.node, peer), one.device);
    }
  }
  return pairs;
}

}  // namespace trimtab::coordinator
