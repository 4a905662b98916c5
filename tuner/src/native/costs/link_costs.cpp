#include "native/costs/link_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "native/costs/training_correction.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kMsPerNs = 1e-6;
constexpr double kUncertaintyOfLinks = 0.2;

constexpr double kLeastLeft = 0.1;  // of a cost, however much shorter its messages have become

// What bandwidth and latency say: `steps` messages one after the other, `bytes` over the wire in all.
Value from_link(const LinkSpeed& link, double steps, double bytes) {
  if (link.bytes_per_s <= 0) return {};
  const double ms = steps * link.latency_us * 1e-3 + bytes / link.bytes_per_s * 1e3;
  return {ms, kUncertaintyOfLinks * ms, Quality::kEstimated};
}

Placement placement_named(const std::string& name) {
  return name == "inter_node" ? Placement::kInterNode : Placement::kIntraNode;
}

constexpr std::array<const char*, kPrimitives> kNames{"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};

constexpr std::array<const char*, 2> kHostCopies{"host_to_device", "device_to_host"};

std::optional<Primitive> primitive_named(const std::string& name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Primitive>(found - kNames.begin());
}

// Bytes that a rank sends for one byte of its input, in a ring of `ranks`.
double wire_share(Primitive primitive, double ranks) {
  switch (primitive) {
    case Primitive::kAllReduce:
      return 2 * (ranks - 1) / ranks;
    case Primitive::kAllGather:
      return ranks - 1;
    case Primitive::kReduceScatter:
    case Primitive::kAllToAll:
      break;
  }
  return (ranks - 1) / ranks;
}

// Messages of a ring of `ranks`, one after the other.
double ring_steps(Primitive primitive, std::int32_t ranks) {
  return (primitive == Primitive::kAllReduce ? 2.0 : 1.0) * (ranks - 1);
}

Value over_link(const LinkSpeed& link, Primitive primitive, std::int64_t bytes, std::int32_t ranks) {
  const double size = static_cast<double>(bytes);
  const bool reduces = primitive == Primitive::kAllReduce;
  const Value ring = from_link(link, ring_steps(primitive, ranks), wire_share(primitive, ranks) * size);
  if (!reduces || ring.quality == Quality::kMissing) return ring;
  const Value tree = from_link(link, 2 * std::ceil(std::log2(static_cast<double>(ranks))), 2 * size);
  return tree.mean < ring.mean ? tree : ring;
}

Value scaled(Value value, double factor) {
  return {value.mean * factor, std::max(kUncertaintyOfLinks * value.mean, value.error) * factor, Quality::kEstimated};
}

// One size alone does not tell latency from bandwidth: the link says what another takes more or less. No less than in
// proportion below it, nor more above it.
Value from_one_size(std::pair<std::int64_t, double> measured, std::int64_t bytes, double difference) {
  const double in_proportion = measured.second * static_cast<double>(bytes) / static_cast<double>(measured.first);
  const auto [least, most] = std::minmax(in_proportion, measured.second);
  const double ms = std::clamp(measured.second + difference, least, most);
  return {ms, kUncertaintyOfLinks * ms, Quality::kEstimated};
}

// What was measured over the level's links, over those of the route.
Value over(const Route& route, double steps, Value value) {
  if (value.quality == Quality::kMissing || (route.share == 1 && route.added_ms == 0)) return value;
  const double as_wide = value.mean / route.share;
  value.mean = std::max(as_wide + steps * route.added_ms, kLeastLeft * as_wide);
  value.error /= route.share;
  value.spread /= route.share;
  return value;
}

LinkSpeed speed_of(const Link& link) {
  return {link.bandwidth_bytes_per_s, link.latency_us};
}

std::array<LinkSpeed, kPlacements> level_speeds(const Cluster& cluster) {
  std::array<LinkSpeed, kPlacements> speeds;
  for (const Placement placement : {Placement::kInterNode, Placement::kIntraNode}) {
    const auto found = std::ranges::find_if(
        cluster.links, [&](const Link& link) { return !link.between && link.level == to_string(placement); });
    if (found != cluster.links.end()) speeds[static_cast<std::size_t>(placement)] = speed_of(*found);
  }
  return speeds;
}

LinkSpeed fastest_named(const Cluster& cluster, Placement placement) {
  LinkSpeed fastest;
  for (const Link& link : cluster.links) {
    const bool of_placement =
        link.between && (link.between->first == link.between->second) == (placement == Placement::kIntraNode);
    if (of_placement && link.bandwidth_bytes_per_s > fastest.bytes_per_s) fastest = speed_of(link);
  }
  return fastest;
}

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

const char* to_string(Placement placement) {
  return placement == Placement::kIntraNode ? "intra_node" : "inter_node";
}

const char* to_string(Primitive primitive) {
  return kNames[static_cast<std::size_t>(primitive)];
}

const char* to_string(HostCopy direction) {
  return kHostCopies[static_cast<std::size_t>(direction)];
}

bool is_host_copy(const std::string& subject) {
  return std::ranges::find(kHostCopies, subject) != kHostCopies.end();
}

Placement placement_of(const Cluster& cluster, const std::vector<std::int32_t>& devices) {
  const std::int32_t node = cluster.node_of(devices.front());
  const bool together = std::ranges::all_of(devices, [&](std::int32_t d) { return cluster.node_of(d) == node; });
  return together ? Placement::kIntraNode : Placement::kInterNode;
}

LinkCosts::LinkCosts(const Cluster& cluster, const std::vector<ChosenCost>& costs, bool allow_estimates)
    : allow_estimates_(allow_estimates), levels_(level_speeds(cluster)), references_(levels_) {
  using Points = std::map<std::int64_t, Value>;
  std::array<std::map<Group, Points>, kPrimitives> collectives;
  std::map<Placement, Points> transfers;
  std::array<Points, 2> copies;
  for (const ChosenCost& cost : costs) {
    const CostKey& key = cost.key;
    const Placement placement = placement_named(key.placement);
    if (key.kind == CostKind::kPointToPoint) {
      const bool host = is_host_copy(key.subject);
      (host ? copies[key.subject == kHostCopies[0] ? 0 : 1] : transfers[placement])[key.bytes] =
          measured(cost, kMsPerNs);
    }
    const std::optional<Primitive> primitive = primitive_named(key.subject);
    if (!primitive) continue;
    const Group group{key.group_size, placement};
    if (key.kind == CostKind::kCollective) {
      collectives[static_cast<std::size_t>(*primitive)][group][key.bytes] = measured(cost, kMsPerNs);
    }
  }
  for (std::size_t p = 0; p < kPrimitives; ++p) {
    for (const auto& [group, points] : collectives[p]) collectives_[p].emplace(group, Curve(points));
  }
  for (const auto& [placement, points] : transfers) {
    point_to_point_.emplace(placement, Curve(points));
    LinkSpeed& reference = references_[static_cast<std::size_t>(placement)];
    const auto& [bytes, time] = *points.rbegin();
    if (reference.bytes_per_s > 0 || time.mean <= 0) continue;
    reference = {static_cast<double>(bytes) / time.mean * 1e3, 0};
  }
  for (const Placement placement : {Placement::kIntraNode, Placement::kInterNode}) {
    LinkSpeed& reference = references_[static_cast<std::size_t>(placement)];
    if (reference.bytes_per_s <= 0) reference = fastest_named(cluster, placement);
  }
  routes_ = Routes(cluster, references_);
  for (std::size_t d = 0; d < copies.size(); ++d) host_copies_[d] = Curve(copies[d]);
}

// Measured, or made from the measured sizes where estimates are allowed. Sizes that training saw are rounded to three
// significant bits.
Value LinkCosts::from_curve(Primitive primitive, std::int64_t bytes, const Group& group) const {
  const Curves& curves = collectives_[static_cast<std::size_t>(primitive)];
  const auto found = curves.find(group);
  if (found == curves.end() || found->second.empty()) return {};
  const Curve& curve = found->second;
  const Value value = curve.around(bytes, kRounding);
  if (value.quality == Quality::kMeasured || !allow_estimates_) return value;
  const std::int64_t only = curve.only_point();
  const LinkSpeed& link = levels_[static_cast<std::size_t>(group.second)];
  if (only == 0 || link.bytes_per_s <= 0) return curve.of_bytes(bytes);
  const auto by_link = [&](std::int64_t size) { return over_link(link, primitive, size, group.first).mean; };
  return from_one_size({only, curve.at(only).mean}, bytes, by_link(bytes) - by_link(only));
}

// An all-reduce is a reduce-scatter and an all-gather of the whole tensor.
Value LinkCosts::from_all_reduce(Primitive primitive, std::int64_t bytes, const Group& group) const {
  if (!allow_estimates_ || primitive == Primitive::kAllReduce) return {};
  const std::int64_t whole = primitive == Primitive::kAllGather ? bytes * group.first : bytes;
  const Value reduce = from_curve(Primitive::kAllReduce, whole, group);
  return reduce.quality == Quality::kMissing ? Value{} : scaled(reduce, 0.5);
}

Value LinkCosts::from_nearest_group(Primitive primitive, std::int64_t bytes, const Group& group) const {
  const Curves& curves = collectives_[static_cast<std::size_t>(primitive)];
  const Group* nearest = nullptr;
  for (const auto& [other, curve] : curves) {
    if (other.second != group.second) continue;
    const bool nearer =
        nearest == nullptr || std::abs(other.first - group.first) < std::abs(nearest->first - group.first);
    if (nearer) nearest = &other;
  }
  if (!allow_estimates_ || nearest == nullptr) return {};
  const Value value = from_curve(primitive, bytes, *nearest);
  if (value.quality == Quality::kMissing) return {};
  return scaled(value, wire_share(primitive, group.first) / wire_share(primitive, nearest->first));
}

Value LinkCosts::collective(Primitive primitive, std::int64_t bytes, std::int32_t group_size,
                            const Route& route) const {
  if (group_size < 2 || bytes <= 0) return {0, 0, Quality::kMeasured};
  const Group group{group_size, route.placement};
  const double steps = ring_steps(primitive, group_size);
  Value value = from_curve(primitive, bytes, group);
  if (value.quality == Quality::kMissing) value = from_all_reduce(primitive, bytes, group);
  if (value.quality != Quality::kMissing) return over(route, steps, value);
  value = over_link(speed(route), primitive, bytes, group_size);
  if (value.quality != Quality::kMissing) return value;
  return over(route, steps, from_nearest_group(primitive, bytes, group));
}

Value LinkCosts::point_to_point(std::int64_t bytes, std::int32_t from_node, std::int32_t to_node) const {
  if (bytes <= 0) return {0, 0, Quality::kMeasured};
  const Route route = routes_.between(from_node, to_node);
  const auto found = point_to_point_.find(route.placement);
  if (found != point_to_point_.end() && !found->second.empty()) {
    const Value value = found->second.at(bytes);
    if (value.quality == Quality::kMeasured) return over(route, 1, value);
    if (allow_estimates_) return over(route, 1, found->second.of_bytes(bytes));
  }
  return from_link(speed(route), 1, static_cast<double>(bytes));
}

LinkSpeed LinkCosts::speed(const Route& route) const {
  const auto placement = static_cast<std::size_t>(route.placement);
  const LinkSpeed& of =
      levels_[placement].bytes_per_s > 0 || !route.named ? levels_[placement] : references_[placement];
  return {of.bytes_per_s * route.share, std::max(0.0, of.latency_us + route.added_ms * 1e3)};
}

Value LinkCosts::host_copy(HostCopy direction, std::int64_t bytes) const {
  if (bytes <= 0) return {0, 0, Quality::kMeasured};
  const Curve& curve = host_copies_[static_cast<std::size_t>(direction)];
  if (curve.empty()) return {};
  const Value value = curve.at(bytes);
  return value.quality == Quality::kMeasured || !allow_estimates_ ? value : curve.of_bytes(bytes);
}

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
  if (std::ranges::none_of(cluster.links, is_named)) return;
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
  std::ranges::sort(nodes);
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
