#include "native/costs/route.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace trimtab::tuner {
namespace {

constexpr double kMsPerUs = 1e-3;

Route route_of(const Link& link, Placement placement, const LinkSpeed& reference) {
  Route route(placement);
  route.named = link.bandwidth_bytes_per_s > 0;
  route.added_ms = link.added_latency_us * kMsPerUs;
  if (link.share > 0) {
    route.share = link.share;
  } else if (route.named && reference.bytes_per_s > 0) {
    route.share = link.bandwidth_bytes_per_s / reference.bytes_per_s;
    route.added_ms += (link.latency_us - reference.latency_us) * kMsPerUs;
  }
  return route;
}

}  // namespace

Route worse(const Route& a, const Route& b) {
  if (a.placement != b.placement) return a.placement > b.placement ? a : b;
  Route route(a.placement);
  route.named = a.named && b.named;
  route.share = std::min(a.share, b.share);
  route.added_ms = std::max(a.added_ms, b.added_ms);
  return route;
}

Routes::Routes(const Cluster& cluster, const std::array<LinkSpeed, kPlacements>& references) {
  const auto is_named = [](const Link& link) { return link.between.has_value(); };
  if (std::none_of(cluster.links.begin(), cluster.links.end(), is_named)) return;
  std::map<std::string, std::int32_t> numbers;
  for (std::size_t n = 0; n < cluster.nodes.size(); ++n) {
    numbers.emplace(cluster.nodes[n].name, static_cast<std::int32_t>(n));
  }
  named_.resize(cluster.nodes.size());
  const auto put = [this](std::int32_t node, std::int32_t peer, const Route& route) {
    std::vector<Named>& of = named_[static_cast<std::size_t>(node)];
    const auto at =
        std::lower_bound(of.begin(), of.end(), peer, [](const Named& one, std::int32_t p) { return one.peer < p; });
    if (at == of.end() || at->peer != peer) of.insert(at, {peer, route});  // of several, the first counts
  };
  for (const Link& link : cluster.links) {
    if (!link.between) continue;
    const auto first = numbers.find(link.between->first);
    const auto second = numbers.find(link.between->second);
    if (first == numbers.end() || second == numbers.end()) continue;  // of nodes that are not there
    const std::int32_t a = first->second;
    const std::int32_t b = second->second;
    const Placement placement = a == b ? Placement::kIntraNode : Placement::kInterNode;
    const Route route = route_of(link, placement, references[static_cast<std::size_t>(placement)]);
    put(a, b, route);
    if (a != b) put(b, a, route);
    Route& worst = worst_[static_cast<std::size_t>(placement)];
    worst = worse(worst, route);
  }
}

const Route* Routes::named(std::int32_t a, std::int32_t b) const {
  if (named_.empty()) return nullptr;
  const std::vector<Named>& of = named_[static_cast<std::size_t>(a)];
  const auto at =
      std::lower_bound(of.begin(), of.end(), b, [](const Named& one, std::int32_t peer) { return one.peer < peer; });
  return at == of.end() || at->peer != b ? nullptr : &at->route;
}

Route Routes::between(std::int32_t a, std::int32_t b) const {
  if (const Route* const found = named(a, b)) return *found;
  return a == b ? Placement::kIntraNode : Placement::kInterNode;
}

Route Routes::among(std::vector<std::int32_t>& nodes) const {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  if (nodes.size() == 1) return between(nodes.front(), nodes.front());
  Route route = Placement::kInterNode;
  std::size_t found = 0;
  for (std::size_t i = 0; i < nodes.size() && any_named(); ++i) {
    for (const Named& one : named_[static_cast<std::size_t>(nodes[i])]) {
      if (one.peer <= nodes[i] ||
          !std::binary_search(nodes.begin() + static_cast<std::ptrdiff_t>(i), nodes.end(), one.peer)) {
        continue;
      }
      route = found++ == 0 ? one.route : worse(route, one.route);
    }
  }
  const bool all = found == nodes.size() * (nodes.size() - 1) / 2;
  return all ? route : worse(route, Placement::kInterNode);
}

}  // namespace trimtab::tuner
