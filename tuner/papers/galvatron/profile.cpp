#include "papers/galvatron/profile.hpp"

#include <algorithm>
#include <charconv>

namespace trimtab::tuner::galvatron {
namespace {

// Costs of a key at the most samples or bytes that were measured: a line's far end has the most digits.
struct Furthest {
  std::int64_t at = 0;
  double value = 0;  // per sample or byte

  void offer(std::int64_t where, double mean) {
    if (where <= at) return;
    at = where;
    value = mean / static_cast<double>(where);
  }
};

struct Measured {
  Furthest forward, parameters, recomputed;
  std::map<std::int32_t, Furthest> kept;
};

// "all_reduce", "all_reduce.strided", "all_reduce.pp2.strided".
bool parse_all_reduce(std::string_view subject, std::int32_t& stages, bool& neighbours) {
  constexpr std::string_view kName = "all_reduce";
  constexpr std::string_view kStrided = ".strided";
  constexpr std::string_view kStages = ".pp";
  if (!subject.starts_with(kName)) return false;
  subject.remove_prefix(kName.size());
  neighbours = !subject.ends_with(kStrided);
  if (!neighbours) subject.remove_suffix(kStrided.size());
  stages = 1;
  if (subject.empty()) return true;
  if (!subject.starts_with(kStages)) return false;
  subject.remove_prefix(kStages.size());
  const auto [end, failure] = std::from_chars(subject.data(), subject.data() + subject.size(), stages);
  return failure == std::errc{} && end == subject.data() + subject.size() && stages > 0;
}

bool parse_transfer(std::string_view subject, std::int32_t& stages) {
  constexpr std::string_view kName = "send_recv.pp";
  if (!subject.starts_with(kName)) return false;
  subject.remove_prefix(kName.size());
  const auto [end, failure] = std::from_chars(subject.data(), subject.data() + subject.size(), stages);
  return failure == std::errc{} && end == subject.data() + subject.size() && stages > 1;
}

using Links = std::map<std::tuple<std::int32_t, std::int32_t, bool>, Furthest>;

void read_links(const std::vector<Cost>& costs, Profile& profile) {
  Links reductions;
  Links plain;  // without a word about strides: neighbours on a node, strided ranks across nodes
  std::map<std::int32_t, Furthest> transfers;
  Furthest slowdown;
  for (const Cost& cost : costs) {
    const CostKey& key = cost.key;
    if (cost.statistics.empty() || key.particular()) continue;
    if (key.kind == CostKind::kOverlapComputation)
      slowdown.offer(key.bytes, cost.statistics.mean() * 1e-6 * static_cast<double>(key.bytes));
    if (key.kind != CostKind::kCollective || key.bytes <= 0) continue;
    std::int32_t stages = 1;
    bool neighbours = true;
    const double ms = cost.statistics.mean() * 1e-6;
    if (parse_transfer(key.subject, stages)) transfers[stages].offer(key.bytes, ms * kMiB);
    if (!parse_all_reduce(key.subject, stages, neighbours) || key.group_size < 2) continue;
    const double volume = 2.0 * (key.group_size - 1) / key.group_size;
    const bool across = key.placement == "inter_node" && key.group_size <= profile.devices_per_node;
    Links& into = key.subject == "all_reduce" && across ? plain : reductions;
    into[{stages, key.group_size, neighbours && !across}].offer(key.bytes, ms * kMiB / volume);
  }
  for (const auto& [key, link] : plain) reductions.try_emplace(key, link);
  for (const auto& [key, link] : reductions) profile.all_reduce[key] = link.value;
  for (const auto& [stages, link] : transfers) profile.transfer[stages] = link.value;
  profile.slowdown = slowdown.at > 0 ? std::max(1.0, slowdown.value) : 1;
}

void read_layers(const Model& model, const std::vector<Cost>& costs, std::map<std::string, Measured>& layers) {
  for (const Operator& op : model.operators) layers.try_emplace(op.cost_key);
  for (const Cost& cost : costs) {
    const CostKey& key = cost.key;
    const auto found = layers.find(key.subject);
    if (found == layers.end() || cost.statistics.empty() || key.samples < 1) continue;
    if (!key.dtype.empty() && key.dtype != model.dtype) continue;
    Measured& of = found->second;
    const double mean = cost.statistics.mean();
    if (key.kind == CostKind::kOperatorStoredBytes) of.kept[key.tp].offer(key.samples, mean);
    if (key.tp != 1) continue;
    if (key.kind == CostKind::kOperatorForward) of.forward.offer(key.samples, mean);
    if (key.kind == CostKind::kOperatorInputBytes) of.recomputed.offer(key.samples, mean);
  }
}

Result<LayerType> type_of(const Model& model, const Operator& op, const Measured& measured) {
  LayerType type;
  type.cost_key = op.cost_key;
  type.decoder = op.kind == "decoder_layer";
  type.forward_ms = measured.forward.value * 1e-6;
  // Four times float32 parameters are what parameters, gradients and optimizer hold together.
  const double held = 1 + model.gradient_bytes_per_parameter_byte + model.optimizer_bytes_per_parameter_byte;
  type.parameter_mib = static_cast<double>(op.parameter_bytes) * held / 4 / kMiB;
  type.boundary_mib = static_cast<double>(op.output_bytes) / kMiB;
  for (const auto& [tp, kept] : measured.kept) type.kept_mib[tp] = kept.value / kMiB;
  type.recomputed_mib = measured.recomputed.value / kMiB;
  if (type.forward_ms > 0 && type.kept_mib.count(1) > 0) return type;
  return bad_input("costs: the galvatron cost models need operator_forward and operator_stored_bytes of '" +
                   op.cost_key + "' in " + model.dtype + " on one rank, found " +
                   (type.forward_ms > 0 ? "no stored bytes" : "no forward time") +
                   "; import a published profile (trimtab db import --format galvatron) or profile the model");
}

}  // namespace

double Profile::reduce_ms_per_mib(std::int32_t stages, std::int32_t ranks, bool neighbours) const {
  if (ranks == 1) return 0;
  const bool all = neighbours || ranks == devices / stages;
  for (const std::int32_t of : {stages, 1}) {
    const auto found = all_reduce.find({of, ranks, all});
    if (found != all_reduce.end()) return found->second;
  }
  return -1;
}

Result<Profile> profile_from_costs(const Model& model, const Cluster& cluster, const std::vector<Cost>& costs) {
  Profile profile;
  profile.devices = cluster.devices();
  profile.devices_per_node = cluster.nodes.front().devices;
  if ((profile.devices & (profile.devices - 1)) != 0) {
    return bad_input("cluster: the galvatron cost models need a power of two of devices, found " +
                     std::to_string(profile.devices) + "; use --cost-model native");
  }
  Bytes least = cluster.nodes.front().memory_bytes;
  for (const Node& node : cluster.nodes) {
    least = std::min(least, node.memory_bytes);
    if (node.devices == profile.devices_per_node) continue;
    return bad_input("cluster: the galvatron cost models need nodes of equally many devices, found " +
                     std::to_string(profile.devices_per_node) + " and " + std::to_string(node.devices) +
                     "; use --cost-model native");
  }
  if (least <= 0) return bad_input("cluster: the galvatron cost models need memory_bytes of every node, found none");
  profile.memory_limit_mib = static_cast<double>(least) / kMiB;
  profile.half_precision = model.dtype != "float32";
  if (model.galvatron) profile.facts = *model.galvatron;
  read_links(costs, profile);
  std::map<std::string, Measured> layers;
  read_layers(model, costs, layers);
  std::map<std::tuple<std::string, std::string, Bytes, Bytes>, std::int32_t> number;
  for (const Operator& op : model.operators) {
    const auto [at, fresh] = number.try_emplace({op.cost_key, op.kind, op.parameter_bytes, op.output_bytes},
                                                static_cast<std::int32_t>(number.size()));
    profile.type_of.push_back(at->second);
    if (!fresh) continue;
    TRIMTAB_TRY(LayerType type, type_of(model, op, layers.at(op.cost_key)));
    const double width = profile.half_precision ? 2 : 4;
    type.sequence_hidden = static_cast<double>(op.output_bytes) / width;
    profile.types.push_back(std::move(type));
  }
  return profile;
}

}  // namespace trimtab::tuner::galvatron
