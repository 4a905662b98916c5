#include "schema/cluster.hpp"

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "documents/members.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kSchema = "trimtab.cluster/1";
constexpr std::string_view kLevels[] = {"intra_node", "inter_node"};
// Keeps sums of devices far from the end of an int32.
constexpr IntegerLimits kDevices{1, 65536, "a number of devices between 1 and 65536"};
constexpr std::size_t kMaxNodes = 16384;
constexpr double kLeastShare = 0.001;

std::string read_node_name(const JsonReader& in, const std::set<std::string>& names) {
  std::string name = in.text();
  if (!names.contains(name)) in.fail("the name of a node of this cluster");
  return name;
}

Link read_link(const JsonReader& in, const std::set<std::string>& names) {
  Link link;
  const JsonReader between = in.at("between");
  if (between.present()) {
    if (between.is_tuple(2, "the names of two nodes")) {
      link.between.emplace(read_node_name(between.element(0), names), read_node_name(between.element(1), names));
    }
    if (const JsonReader share = in.at("share"); share.present()) {
      link.share = share.number();
      if (link.share < kLeastShare) share.fail("a share of a link's bandwidth, 0.001 or more");
    }
    link.added_latency_us = in.at("added_latency_us").signed_number_or(0);
  } else if (const JsonReader level = in.at("level"); level.present()) {
    link.level = kLevels[level.choice_or(0, kLevels)];
  } else {
    in.at("level").fail("\"intra_node\" or \"inter_node\", or two nodes as \"between\"");
  }
  link.bandwidth_bytes_per_s = in.at("bandwidth_bytes_per_s").number_or(0);
  link.latency_us = in.at("latency_us").number_or(0);
  return link;
}

}  // namespace

std::int32_t Cluster::devices() const {
  std::int32_t total = 0;
  for (const Node& node : nodes) total += node.devices;
  return total;
}

std::int32_t Cluster::node_of(std::int32_t device) const {
  TRIMTAB_ASSERT(device >= 0, "devices are numbered from 0");
  std::int32_t end = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    end += nodes[i].devices;
    if (device < end) return static_cast<std::int32_t>(i);
  }
  TRIMTAB_ASSERT(false, "a device must belong to the cluster");
  return 0;
}

template <typename M>
void members(M& m, Of<Node> auto& node) {
  m.needed("name", node.name);
  m.always("fingerprint", node.fingerprint);
  m.always("devices", node.devices, kDevices);
  m.needed("memory_bytes", node.memory_bytes);
  m.unless(0, "host_memory_bytes", node.host_memory_bytes);
  m.unless({}, "speeds", node.speeds);
  if constexpr (M::kReads) {
    const auto slow = std::ranges::find_if(node.speeds, [](double speed) { return speed < kLeastShare; });
    const JsonReader speeds = m.in.at("speeds");
    if (slow != node.speeds.end()) {
      speeds.element(static_cast<std::size_t>(slow - node.speeds.begin()))
          .fail("a share of a device's speed, 0.001 or more");
    }
    if (std::cmp_greater(node.speeds.size(), node.devices)) speeds.fail("at most one number for each device");
  }
}

void members(auto& m, Of<Link> auto& link) {
  if (link.between) {
    m.always("between", *link.between);
  } else {
    m.always("level", link.level);
  }
  m.unless(0, "bandwidth_bytes_per_s", link.bandwidth_bytes_per_s);
  m.unless(0, "latency_us", link.latency_us);
  m.unless(0, "share", link.share);
  m.unless(0, "added_latency_us", link.added_latency_us);
}

template <typename M>
void members(M& m, Of<Cluster> auto& cluster) {
  m.list("nodes", cluster.nodes);
  if constexpr (M::kReads) {
    std::set<std::string> names;
    const JsonReader nodes = m.in.at("nodes");
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
      const std::string& name = cluster.nodes[i].name;
      if (names.insert(name).second) continue;
      nodes.element(i).at("name").refuse("another node is already called \"" + name + "\"");
    }
    if (nodes.size() > kMaxNodes) nodes.fail("at most " + std::to_string(kMaxNodes) + " nodes");
    std::int64_t devices = 0;
    for (const Node& node : cluster.nodes) devices += node.devices;
    if (devices > kMostDevices) {
      nodes.refuse("a cluster has at most " + std::to_string(kMostDevices) + " devices, found " +
                   std::to_string(devices));
    }
    m.in.at("links").each([&](const JsonReader& in) { cluster.links.push_back(read_link(in, names)); });
  } else {
    m.always("links", cluster.links);
  }
}

Result<Cluster> parse_cluster(std::string_view json, std::string_view source) {
  return parse_document<Cluster>(json, source, kSchema);
}

std::string to_json(const Cluster& cluster) {
  return written_document(cluster, kSchema);
}

}  // namespace trimtab
