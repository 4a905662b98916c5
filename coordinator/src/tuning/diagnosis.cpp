#include "tuning/diagnosis.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/numbers.hpp"
#include "tuning/comparison.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kLeastChange = 0.1;  // of a speed: less explains no drift
constexpr double kClearly = 6;        // standard deviations of all probes' ratios
constexpr double kMostNoise = 0.3;    // more than that is a change, however the others scatter
constexpr std::size_t kNamed = 3;     // in a text

using Subject = std::tuple<std::int32_t, std::string, std::string, std::string>;

Subject subject_of(const Probe& probe) {
  return {probe.device, probe.node, probe.peer, probe.level};
}

// The share of its earlier speed of each probe of now.
std::vector<Finding> compared(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::map<Subject, double> known;
  for (const Probe& one : before) known[subject_of(one)] = one.ms;
  std::vector<Finding> all;
  for (const Probe& one : now) {
    const auto found = known.find(subject_of(one));
    if (found != known.end() && found->second > 0 && one.ms > 0) all.push_back({one, found->second / one.ms});
  }
  return all;
}

// The logarithm of a share from which on it is a change. Most probes are of what nothing has happened to, so the median
// of all says how far they scatter; where it says that most have changed, that is no noise.
double clear_change(const std::vector<Finding>& all) {
  std::vector<double> off;
  for (const Finding& one : all) off.push_back(std::abs(std::log(one.share)));
  const double sigma = off.size() < 3 ? 0 : 1.4826 * median(off);
  return sigma > kLeastChange ? kLeastChange : std::clamp(kClearly * sigma, kLeastChange, kMostNoise);
}

std::string words(const Finding& one) {
  const Probe& probe = one.probe;
  const std::string share = format_number(std::round(100 * one.share)) + " %";
  if (!one.is_link()) {
    return "device " + std::to_string(probe.device) + " of node " + probe.node + " is at " + share + " of its speed";
  }
  if (probe.peer.empty()) return "the links inside of node " + probe.node + " are at " + share + " of their bandwidth";
  return "the link of node " + probe.node + " to " + probe.peer + " is at " + share + " of its bandwidth";
}

}  // namespace

std::vector<Finding> diagnose(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::vector<Finding> all = compared(before, now);
  const double least = clear_change(all);
  std::erase_if(all, [least](const Finding& one) { return std::abs(std::log(one.share)) < least; });
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return std::abs(std::log(a.share)) > std::abs(std::log(b.share));
  });
  return all;
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string text;
  for (std::size_t i = 0; i < std::min(findings.size(), kNamed); ++i) text += (i == 0 ? "" : "; ") + words(findings[i]);
  if (findings.size() > kNamed) text += "; and " + std::to_string(findings.size() - kNamed) + " more";
  return text;
}

std::map<std::string, double> link_shares(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::map<std::string, double> slowest;
  for (const Finding& one : compared(before, now)) {
    if (!one.is_link()) continue;
    const auto [found, fresh] = slowest.try_emplace(one.probe.level, one.share);
    if (!fresh) found->second = std::min(found->second, one.share);
  }
  const double least = clear_change(compared(before, now));
  std::erase_if(slowest, [least](const auto& one) { return std::abs(std::log(one.second)) < least; });
  return slowest;
}

void slow_links(const std::map<std::string, double>& shares, Cluster& cluster, std::vector<Cost>& costs) {
  const auto share_of = [&shares](const std::string& level) {
    const auto found = shares.find(level.empty() ? "intra_node" : level);
    return found == shares.end() ? 1.0 : found->second;
  };
  for (Link& link : cluster.links) {
    link.bandwidth_bytes_per_s *= share_of(link.between ? "inter_node" : link.level);
  }
  for (Cost& cost : costs) {
    const bool moves = cost.key.kind == CostKind::kCollective || cost.key.kind == CostKind::kPointToPoint;
    const double share = share_of(cost.key.placement);
    if (!moves || share == 1 || cost.statistics.empty()) continue;
    Statistics slower;
    slower.add(std::llround(cost.statistics.mean() / share));
    cost.statistics = slower;
  }
}

}  // namespace trimtab::coordinator
