#include "schema/cluster.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "documents/json_reader.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kSchema = "trimtab.cluster/1";
constexpr std::string_view kLevels[] = {"intra_node", "inter_node"};
// Keeps sums of devices far from the end of an int32.
constexpr IntegerLimits kDevices{1, 65536, "a number of devices between 1 and 65536"};
constexpr std::size_t kMaxNodes = 16384;
constexpr double kLeastSpeed = 0.001;

double read_speed(const JsonReader& in) {
  const double speed = in.number();
  if (speed < kLeastSpeed) in.fail("a share of a device's speed, 0.001 or more");
  return std::max(speed, kLeastSpeed);
}

double read_share(const JsonReader& in) {
  const double share = in.number();
  if (share < kLeastSpeed) in.fail("a share of a link's bandwidth, 0.001 or more");
  return std::max(share, kLeastSpeed);
}

Node read_node(const JsonReader& in, std::set<std::string>& names) {
  Node node;
  node.name = in.at("name").text();
  node.fingerprint = in.at("fingerprint").text_or("");
  node.devices = in.at("devices").integer32_or(1, kDevices);
  node.memory_bytes = in.at("memory_bytes").integer(kNonNegative);
  node.host_memory_bytes = in.at("host_memory_bytes").integer_or(0, kNonNegative);
  in.at("speeds").each([&](const JsonReader& speed) { node.speeds.push_back(read_speed(speed)); });
  if (std::cmp_greater(node.speeds.size(), node.devices)) in.at("speeds").fail("at most one number for each device");
  if (!names.insert(node.name).second) in.at("name").refuse("another node is already called \"" + node.name + "\"");
  return node;
}

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
    if (const JsonReader share = in.at("share"); share.present()) link.share = read_share(share);
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

OrderedJson write_link(const Link& link) {
  OrderedJson json = OrderedJson::object();
  if (link.between) {
    json["between"] = {link.between->first, link.between->second};
  } else {
    json["level"] = link.level;
  }
  if (link.bandwidth_bytes_per_s != 0) json["bandwidth_bytes_per_s"] = link.bandwidth_bytes_per_s;
  if (link.latency_us != 0) json["latency_us"] = link.latency_us;
  if (link.share != 0) json["share"] = link.share;
  if (link.added_latency_us != 0) json["added_latency_us"] = link.added_latency_us;
  return json;
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

Result<Cluster> parse_cluster(std::string_view json, std::string_view source) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, source, kSchema));
  const JsonReader root = document.root();
  Cluster cluster;
  std::set<std::string> names;
  const JsonReader nodes = root.at("nodes");
  nodes.each_required([&](const JsonReader& in) { cluster.nodes.push_back(read_node(in, names)); });
  if (nodes.size() > kMaxNodes) nodes.fail("at most " + std::to_string(kMaxNodes) + " nodes");
  root.at("links").each([&](const JsonReader& in) { cluster.links.push_back(read_link(in, names)); });
  TRIMTAB_TRY_STATUS(document.status());
  return cluster;
}

std::string to_json(const Cluster& cluster) {
  OrderedJson json{{"schema", kSchema}, {"nodes", OrderedJson::array()}, {"links", OrderedJson::array()}};
  for (const Node& node : cluster.nodes) {
    OrderedJson out{{"name", node.name},
                    {"fingerprint", node.fingerprint},
                    {"devices", node.devices},
                    {"memory_bytes", node.memory_bytes}};
    if (node.host_memory_bytes != 0) out["host_memory_bytes"] = node.host_memory_bytes;
    if (!node.speeds.empty()) out["speeds"] = node.speeds;
    json["nodes"].push_back(std::move(out));
  }
  for (const Link& link : cluster.links) json["links"].push_back(write_link(link));
  return dump(json);
}

}  // namespace trimtab
