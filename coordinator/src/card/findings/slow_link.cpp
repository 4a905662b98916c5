// A link between nodes that is clearly slower than the others, or than it was, in a job that waits for communication.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "card/findings/findings.hpp"

namespace trimtab::coordinator {

namespace {

constexpr double kClearlyBelow = 0.7;  // of the others, or of itself earlier
constexpr double kLeastGain = 0.03;

struct SlowLink {
  const CardLink* link = nullptr;
  double share = 1;  // of what it is compared with
  double least = 1;  // that it may be, the probes' spread allowed for
  double most = 1;
  double usual = 0;  // bytes/s
  bool than_earlier = false;
};

SlowLink compared(const CardLink& link, double usual, double spread, bool than_earlier) {
  const double share = link.bytes_per_s / usual;
  return {&link, share, share / (1 + spread), std::min(share * (1 + spread), 1.0), usual, than_earlier};
}

// What links between nodes usually give: a slow one, or the few slow ones of one node, must not be what is usual.
double usual_speed(const std::vector<CardLink>& links) {
  std::vector<double> speeds;
  for (const CardLink& link : links) {
    if (!link.peer.empty() && link.bytes_per_s > 0) speeds.push_back(link.bytes_per_s);
  }
  return speeds.size() < 2 ? 0 : quantile_of(std::move(speeds), 0.75);
}

// The slowest of all.
SlowLink slowest(const std::vector<CardLink>& links) {
  SlowLink found;
  const double usual = usual_speed(links);
  for (const CardLink& link : links) {
    if (link.peer.empty() || link.bytes_per_s <= 0) continue;
    if (usual > 0) {
      const SlowLink one = compared(link, usual, link.spread, false);
      if (one.share < found.share) found = one;
    }
    if (link.earlier_bytes_per_s > 0) {
      const SlowLink one = compared(link, link.earlier_bytes_per_s, link.spread, true);
      if (one.share < found.share) found = one;
    }
  }
  return found;
}

// The node at which more than one slow link ends and no other one does: its network is what is slow.
std::string common_node(const std::vector<CardLink>& links, const SlowLink& slow) {
  std::map<std::string, int> slow_ends;
  std::map<std::string, int> all_ends;
  for (const CardLink& link : links) {
    if (link.peer.empty() || link.bytes_per_s <= 0) continue;
    for (const std::string& node : {link.node, link.peer}) {
      ++all_ends[node];
      if (link.bytes_per_s < kClearlyBelow * slow.usual) ++slow_ends[node];
    }
  }
  for (const auto& [node, count] : slow_ends) {
    if (count > 1 && count == all_ends[node]) return node;
  }
  return "";
}

std::string speed(double bytes_per_s) {
  return format_number(bytes_per_s / 1e6, bytes_per_s < 1e7 ? 1 : 0) + " MB/s";
}

}  // namespace

Found find_slow_link(const JobLook& job) {
  if (auto in_use = find_slow_link_in_use(job)) return in_use;
  const SlowLink slow = slowest(job.evidence.links);
  if (slow.link == nullptr || slow.most > kClearlyBelow || !job.work().are_enough()) return {};
  // A job that hardly waits for communication loses nothing by it.
  const Estimate waiting = pure_communication(job);
  const Estimate gain{waiting.value * (1 - slow.share), std::max(waiting.low, 0.0) * (1 - slow.most),
                      waiting.high * (1 - slow.least)};
  if (gain.value < kLeastGain) return {};
  const std::string node = slow.than_earlier ? "" : common_node(job.evidence.links, slow);
  const std::string link = "the link of node " + slow.link->node + " to node " + slow.link->peer;
  api::CardFinding finding = new_finding(api::FindingName::kSlowLink, gain);
  finding.why = link + " carries " + speed(slow.link->bytes_per_s) + ", " +
                (slow.than_earlier ? "it was " : "others carry ") + speed(slow.usual) + "; " +
                format_percent(waiting.value) + " of a step is exposed communication" +
                (node.empty() ? "" : "; all slow links end at node " + node);
  finding.advice = node.empty()
                       ? "check " + link + ": its negotiated rate (ethtool), other traffic, its cable and switch port"
                       : "check the network of node " + node +
                             ": its negotiated rate (ethtool), other traffic, its cable and switch port; or "
                             "run without that node";
  return finding;
}

}  // namespace trimtab::coordinator
