#include "tuner/needed_costs.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "native/costs/cost_identity.hpp"
#include "native/costs/launch_costs.hpp"
#include "native/costs/operator_traits.hpp"
#include "native/costs/training_correction.hpp"
#include "native/stage/switch_stage.hpp"
#include "plan/plan_space.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kSampleCounts = 8;  // per operator at most; those between are interpolated
constexpr std::size_t kSizes = 5;         // per collective and for transfers

// At most `count` of the sorted values, the first and the last among them, spread evenly in logarithm.
template <typename Integer>
std::vector<Integer> bracket(const std::vector<Integer>& sorted, std::size_t count) {
  if (sorted.size() <= count) return sorted;
  std::set<Integer> chosen;
  const double low = std::log(static_cast<double>(sorted.front()));
  const double high = std::log(static_cast<double>(sorted.back()));
  for (std::size_t i = 0; i < count; ++i) {
    const double target = low + (high - low) * static_cast<double>(i) / static_cast<double>(count - 1);
    chosen.insert(*std::ranges::min_element(sorted, [target](Integer a, Integer b) {
      return std::abs(std::log(static_cast<double>(a)) - target) < std::abs(std::log(static_cast<double>(b)) - target);
    }));
  }
  return {chosen.begin(), chosen.end()};
}

// Sizes between two bounds for what occurs at too many to list.
std::vector<std::int64_t> sizes_between(std::int64_t low, std::int64_t high) {
  std::set<std::int64_t> sizes{low, high};
  const double ratio = static_cast<double>(high) / static_cast<double>(low);
  for (std::size_t i = 1; i + 1 < kSizes && ratio > 1; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(kSizes - 1);
    sizes.insert(static_cast<std::int64_t>(static_cast<double>(low) * std::pow(ratio, share)));
  }
  return {sizes.begin(), sizes.end()};
}

class Needed {
 public:
  Needed(const Model& model, const Cluster& cluster, const Knobs& knobs)
      : model_(model), cluster_(cluster), knobs_(knobs), microbatches_(allowed_microbatches(model)) {
    for (const std::int32_t tp : tensor_degrees(cluster, knobs)) {
      std::vector<std::int32_t> replicas = possible_degrees(model, cluster, knobs, tp);
      if (!replicas.empty()) widths_.push_back({tp, std::move(replicas)});
    }
    for (const PlanSpace& space : whole_plan_spaces(model, plan_space(model, cluster, knobs, 1))) {
      if (space.interleaved) continue;
      const std::int32_t tp = space.tensor_parallel.front();
      std::vector<std::int32_t> replicas = possible_degrees(model, cluster, knobs, tp * space.sequence.cp);
      if (!replicas.empty()) shared_.push_back({tp, std::move(replicas), space.sequence});
    }
  }

  std::set<CostKey> collect() {
    for (const Width& width : widths_) add_operators(width, sample_counts(width), "default");
    for (const Width& width : shared_) add_shared(width);
    add_optimizers();
    add_gradients();
    if (halves(true)) add_tensor_reduces();
    if (knobs_.pipeline && cluster_.devices() > 1) add_transfers();
    if (knobs_.memory_switches) add_switches();
    CostKey process;
    process.kind = CostKind::kProcessBytes;
    process.subject = "process";
    keys_.insert(process);
    return std::move(keys_);
  }

 private:
  // Ranks of a replica, and the numbers of replicas that may occur beside it.
  struct Width {
    std::int32_t tp = 1;
    std::vector<std::int32_t> replicas;
    SequenceShare sequence = {};

    [[nodiscard]] std::int32_t ranks() const { return tp * sequence.cp; }
  };

  // More samples than the largest device could hold of this operator alone cannot be in a plan that fits.
  [[nodiscard]] bool could_fit(const Operator& op, std::int32_t samples, std::int32_t ranks) const {
    Bytes most = 0;
    for (const Node& node : cluster_.nodes) {
      if (node.memory_bytes <= 0) return true;
      most = std::max(most, node.memory_bytes);
    }
    return static_cast<double>(op.activation_bytes) * samples / ranks <= static_cast<double>(most);
  }

  // Whether plans may run half microbatches: slices, or `sub_batches` of tensor-parallel ranks.
  [[nodiscard]] bool halves(bool sub_batches) const {
    if (knobs_.sliced_microbatches && !sub_batches) return true;
    return knobs_.sub_batches && !widths_.empty() && widths_.back().tp > 1;
  }

  [[nodiscard]] std::vector<std::int32_t> sample_counts(const Width& width) const {
    const std::vector<std::int32_t> whole = possible_samples(model_, width.replicas);
    if (!halves(false)) return whole;
    std::set<std::int32_t> counts(whole.begin(), whole.end());
    for (const std::int32_t samples : whole) {
      if (samples % 2 == 0) counts.insert(samples / 2);
    }
    return {counts.begin(), counts.end()};
  }

  void add_operators(const Width& width, const std::vector<std::int32_t>& samples, const std::string& sharding) {
    std::set<std::string> seen;
    for (const Operator& op : model_.operators) {
      if (!seen.insert(op.cost_key).second) continue;
      std::vector<std::int32_t> fitting;
      for (const std::int32_t count : samples) {
        if (could_fit(op, count, width.ranks())) fitting.push_back(count);
      }
      for (const std::int32_t count : bracket(fitting, kSampleCounts)) add_operator(op, count, width.tp, sharding);
    }
  }

  void add_operator(const Operator& op, std::int32_t samples, std::int32_t tp, const std::string& sharding) {
    for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward, CostKind::kOperatorStoredBytes,
                                CostKind::kOperatorWorkingBytes}) {
      CostKey key;
      key.kind = kind;
      key.subject = op.cost_key;
      key.dtype = model_.dtype;
      key.samples = samples;
      key.tp = tp;
      key.sharding = sharding;
      keys_.insert(key);
    }
  }

  // Ranks that share sequences: their operators, which the ranks of one node can measure, and what the price of those
  // on several nodes is made of (sequence_costs.hpp).
  void add_shared(const Width& width) {
    const auto [cp, parallel] = width.sequence;
    const std::vector<std::int32_t> samples = possible_samples(model_, width.replicas);
    if (samples.empty()) return;
    if (width.ranks() <= largest_node(cluster_)) add_operators(width, samples, sharing_name(cp, parallel));
    const char* const sum = parallel ? "reduce_scatter" : "all_reduce";
    const auto sums = [&](std::int32_t parts) {
      return collective_sizes(samples, parts, [](const Operator& op) {
        return tensor_all_reduces(op).value_or(0) > 0 ? op.output_bytes : 0;
      });
    };
    const std::string inside = to_string(Placement::kIntraNode);
    if (width.tp > 1) add_collective("all_reduce", width.tp, inside, sums(1));
    if (width.tp > 1) add_collective(sum, width.tp, inside, sums(cp));
    if (parallel) add_collective("all_gather", width.tp, inside, sums(width.ranks()));
    if (cp == 1) return;
    for (const std::string& placement : placements(width.ranks())) {
      add_collective("all_gather", cp, placement, collective_sizes(samples, width.ranks(), key_value_bytes));
      add_collective("reduce_scatter", cp, placement, collective_sizes(samples, width.tp, key_value_bytes));
    }
  }

  // Of the operators' bytes of a sample, where they have any, one of so many parts.
  template <typename BytesOf>
  [[nodiscard]] std::vector<std::int64_t> collective_sizes(const std::vector<std::int32_t>& samples, std::int32_t parts,
                                                           BytesOf&& bytes_of) const {
    std::set<Bytes> bytes;
    for (const Operator& op : model_.operators) bytes.insert(bytes_of(op));
    bytes.erase(0);
    if (bytes.empty()) return {};
    return sizes_between(std::max<std::int64_t>(*bytes.begin() * samples.front() / parts, 1),
                         std::max<std::int64_t>(*bytes.rbegin() * samples.back() / parts, 1));
  }

  void add_optimizers() {
    for (const Operator& op : model_.operators) {
      if (op.parameter_bytes == 0) continue;
      CostKey key;
      key.kind = CostKind::kOptimizerStep;
      key.subject = op.cost_key;
      key.dtype = model_.dtype;
      keys_.insert(key);
      if (!knobs_.memory_switches) continue;
      key.placement = "host";
      keys_.insert(key);
    }
  }

  // Whether `ranks` of a stage of `span` consecutive devices can lie inside a node, or across nodes.
  [[nodiscard]] std::vector<std::string> placements(std::int32_t span) const {
    std::vector<std::string> names;
    if (largest_node(cluster_) >= span) names.emplace_back(to_string(Placement::kIntraNode));
    if (cluster_.nodes.size() > 1) names.emplace_back(to_string(Placement::kInterNode));
    return names;
  }

  // Bytes that replicas exchange for one operator at a time, `factor` for one of its parameters.
  [[nodiscard]] std::vector<std::int64_t> parameter_sizes(double factor) const {
    std::set<std::int64_t> occurring;
    for (const Operator& op : model_.operators) {
      for (const Width& width : widths_) {
        const double bytes = static_cast<double>(op.parameter_bytes) * factor / width.tp;
        if (bytes >= 1) occurring.insert(whole(bytes));
      }
    }
    return bracket(std::vector<std::int64_t>(occurring.begin(), occurring.end()), kSizes);
  }

  void add_gradients() {
    std::set<std::pair<std::int32_t, std::string>> groups;
    for (const std::vector<Width>* const widths : {&widths_, &shared_}) {
      for (const Width& width : *widths) add_groups(width, groups);
    }
    const double gradient = model_.gradient_bytes_per_parameter_byte;
    const std::vector<std::int64_t> gradients = parameter_sizes(gradient);
    for (const auto& [replicas, placement] : groups) {
      add_group(replicas, placement, gradients);
      if (!knobs_.sharded) continue;
      add_collective("reduce_scatter", replicas, placement, gradients);
      add_collective("all_gather", replicas, placement, parameter_sizes(1.0 / replicas));
    }
  }

  // Ranks that hold the same parameters, and where: replicas, each with those that share its sequences.
  void add_groups(const Width& width, std::set<std::pair<std::int32_t, std::string>>& groups) const {
    for (const std::int32_t replicas : width.replicas) {
      const std::int32_t alike = replicas * width.sequence.cp;
      if (alike < 2) continue;
      for (std::string& placement : placements(alike * width.tp)) groups.emplace(alike, std::move(placement));
    }
  }

  void add_collective(const char* primitive, std::int32_t ranks, const std::string& placement,
                      const std::vector<std::int64_t>& sizes) {
    CostKey key;
    key.kind = CostKind::kCollective;
    key.subject = primitive;
    key.group_size = ranks;
    key.placement = placement;
    for (const std::int64_t bytes : sizes) {
      key.bytes = bytes;
      keys_.insert(key);
    }
  }

  // All-reduces, and what they and a computation slow each other down.
  void add_group(std::int32_t ranks, const std::string& placement, const std::vector<std::int64_t>& sizes) {
    if (sizes.empty()) return;
    add_collective("all_reduce", ranks, placement, sizes);
    CostKey key;
    key.subject = "all_reduce";
    key.bytes = sizes.back();
    key.group_size = ranks;
    key.placement = placement;
    for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
      key.kind = kind;
      keys_.insert(key);
    }
  }

  // The outputs of half a microbatch that tensor-parallel ranks add up beside the other half.
  void add_tensor_reduces() {
    std::int64_t smallest = 0;
    std::int64_t largest = 0;
    for (const Operator& op : model_.operators) {
      if (op.output_bytes <= 0 || tensor_all_reduces(op).value_or(0) == 0) continue;
      smallest = smallest == 0 ? op.output_bytes : std::min(smallest, op.output_bytes);
      largest = std::max(largest, op.output_bytes);
    }
    if (largest == 0 || microbatches_.empty() || microbatches_.back() < 2) return;
    const std::vector<std::int64_t> sizes = sizes_between(smallest, largest * (microbatches_.back() / 2));
    for (const Width& width : widths_) {
      if (width.tp > 1) add_group(width.tp, to_string(Placement::kIntraNode), sizes);
    }
  }

  void add_transfers() {
    std::int64_t smallest = 0;
    std::int64_t largest = 0;
    for (const std::int32_t cut : allowed_cuts(model_)) {
      const std::int64_t bytes = model_.operators[cut - 1].output_bytes;
      if (bytes <= 0) continue;
      smallest = smallest == 0 ? bytes : std::min(smallest, bytes);
      largest = std::max(largest, bytes);
    }
    if (largest == 0 || microbatches_.empty()) return;
    // Two stages of different degree may exchange a single sample.
    if (!knobs_.data_parallel) {
      const std::int32_t least = microbatches_.front();
      smallest *= halves(false) && least % 2 == 0 ? least / 2 : least;
    }
    largest *= microbatches_.back();
    std::int32_t parts = 1;  // of a sample
    for (const Width& width : shared_) {
      parts = std::max(parts, width.sequence.cp * (width.sequence.parallel ? width.tp : 1));
    }
    smallest = std::max<std::int64_t>(smallest / parts, 1);
    for (const std::string& placement : placements(2)) {
      for (const std::int64_t bytes : sizes_between(smallest, largest)) {
        CostKey key;
        key.kind = CostKind::kPointToPoint;
        key.subject = "send_recv";
        key.bytes = bytes;
        key.placement = placement;
        keys_.insert(key);
      }
    }
  }

  // What memory switches move for one layer: its parameters and gradients, between replicas and to the host, and the
  // hidden state that it begins with; the devices of a node copy at the same time.
  void add_switches() {
    std::set<std::int64_t> parameters;
    std::set<std::int64_t> hidden;
    const auto operators = static_cast<std::int32_t>(model_.operators.size());
    for (const Range& layer : layers_inside(model_, {0, operators})) {
      std::int64_t bytes = 0;
      for (std::int32_t i = layer.begin; i < layer.end; ++i) bytes += model_.operators[i].parameter_bytes;
      if (bytes > 0) parameters.insert(bytes);
      const std::int64_t input = layer.begin > 0 ? model_.operators[layer.begin - 1].output_bytes : 0;
      if (input > 0) hidden.insert(input);
    }
    if (parameters.empty()) return;
    const double gradient = model_.gradient_bytes_per_parameter_byte;
    std::int32_t most_shares = 1;  // of a layer's parameters: ranks and replicas
    for (const Width& width : widths_) {
      for (const std::int32_t replicas : width.replicas) {
        most_shares = std::max(most_shares, width.tp * replicas);
        if (replicas < 2 || !knobs_.sharded) continue;
        const double least = static_cast<double>(*parameters.begin()) / width.tp;
        const double most = static_cast<double>(*parameters.rbegin()) / width.tp;
        for (const std::string& placement : placements(replicas * width.tp)) {
          add_collective("all_gather", replicas, placement,
                         sizes_between(whole(least / replicas), whole(most / replicas) + 1));
          add_collective("reduce_scatter", replicas, placement,
                         sizes_between(whole(least * gradient), whole(most * gradient)));
        }
      }
    }
    double smallest = static_cast<double>(*parameters.begin()) * std::min(1.0, gradient) / most_shares;
    double largest = static_cast<double>(*parameters.rbegin()) * std::max(1.0, gradient);
    if (!hidden.empty() && !microbatches_.empty()) {
      smallest = std::min(smallest, static_cast<double>(*hidden.begin()));
      largest = std::max(largest, static_cast<double>(*hidden.rbegin()) * microbatches_.back());
    }
    for (const HostCopy direction : {HostCopy::kHostToDevice, HostCopy::kDeviceToHost}) {
      CostKey key;
      key.kind = CostKind::kPointToPoint;
      key.subject = to_string(direction);
      for (const std::int64_t bytes : sizes_between(whole(smallest), whole(largest) * largest_node(cluster_))) {
        key.bytes = bytes;
        keys_.insert(key);
      }
    }
  }

  const Model& model_;
  const Cluster& cluster_;
  const Knobs& knobs_;
  std::vector<std::int32_t> microbatches_;
  std::vector<Width> widths_;
  std::vector<Width> shared_;  // whose ranks share sequences
  std::set<CostKey> keys_;
};

using Json = nlohmann::ordered_json;

constexpr double kRelativeError = 0.03;
constexpr int kRepetitionsMin = 5;
constexpr int kRepetitionsMax = 60;

// The operator that overlap is measured beside.
struct Companion {
  std::string cost_key;
  std::string dtype;
  std::int32_t samples = 1;
};

bool is_operator(const CostKey& key) {
  return key.kind <= CostKind::kOperatorWorkingBytes;
}

void place(const CostKey& key, Json& item) {
  if (!key.placement.empty() && key.placement != "intra_node") item["placement"] = key.placement;
}

Json operator_item(const CostKey& key) {
  return {{"kind", "operator"}, {"cost_key", key.subject}, {"dtype", key.dtype}, {"samples", key.samples},
          {"tp", key.tp},       {"sharding", key.sharding}};
}

Json collective_item(const CostKey& key) {
  Json item = {
      {"kind", "collective"}, {"primitive", key.subject}, {"bytes", key.bytes}, {"group_size", key.group_size}};
  place(key, item);
  return item;
}

Json overlap_item(const CostKey& key, const Companion& beside) {
  Json item = {{"kind", "overlap"},           {"primitive", key.subject},
               {"bytes", key.bytes},          {"group_size", key.group_size},
               {"cost_key", beside.cost_key}, {"dtype", beside.dtype},
               {"samples", beside.samples}};
  place(key, item);
  return item;
}

// Null where no benchmark fills the key: such costs are seen in running jobs only.
Json item_of(const CostKey& key, const Companion& beside) {
  switch (key.kind) {
    case CostKind::kOperatorForward:
    case CostKind::kOperatorBackward:
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
      return operator_item(key);
    case CostKind::kOptimizerStep: {
      Json item = {{"kind", "optimizer"}, {"cost_key", key.subject}, {"dtype", key.dtype}};
      if (!key.placement.empty()) item["placement"] = key.placement;
      return item;
    }
    case CostKind::kCollective:
      return collective_item(key);
    case CostKind::kPointToPoint: {
      if (is_host_copy(key.subject)) return {{"kind", "copy"}, {"direction", key.subject}, {"bytes", key.bytes}};
      Json item = {{"kind", "point_to_point"}, {"bytes", key.bytes}};
      place(key, item);
      return item;
    }
    case CostKind::kOverlapComputation:
    case CostKind::kOverlapCommunication:
      return overlap_item(key, beside);
    case CostKind::kProcessBytes:
      return {{"kind", "process"}};
    case CostKind::kOperatorInputBytes:
    case CostKind::kOperatorOutputBytes:
    case CostKind::kOperatorParameterBytes:
    case CostKind::kOperatorForwardReserveBytes:
    case CostKind::kOperatorBackwardReserveBytes:
    case CostKind::kStepOverhead:
    case CostKind::kStepTime:
    case CostKind::kRange:
    case CostKind::kKernel:
      break;
  }
  return {};
}

// By a host to its device.
bool is_issued(const CostKey& key) {
  return is_pass(key.kind) || (key.kind == CostKind::kOptimizerStep && key.placement != "host");
}

const CostKey* most_samples(const std::vector<CostKey>& keys, const std::string& cost_key) {
  const CostKey* most = nullptr;
  for (const CostKey& key : keys) {
    if (!is_operator(key) || key.subject != cost_key) continue;
    if (most == nullptr || key.samples > most->samples) most = &key;
  }
  return most;
}

}  // namespace

std::vector<CostKey> needed_costs(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                  const std::vector<Cost>& known, bool launches) {
  std::set<CostKey> have;
  const std::string_view own = protocol_of(model.launched_as);
  for (const std::vector<ChosenCost>& costs : {choose_costs(known), choose_launches(known, model.launched_as)}) {
    for (const ChosenCost& cost : costs) {
      const bool is_others = cost.key.is_launch() && !own.empty() && cost.key.protocol != own;
      if (is_known(cost) && !is_others) have.insert(identity(cost.key));
    }
  }
  const OverlapCosts overlaps(known);
  std::vector<CostKey> missing;
  const auto need = [&](const CostKey& key) {
    if (have.count(identity(key)) == 0 && !overlaps.seen_in_training(key)) missing.push_back(key);
  };
  for (const CostKey& key : Needed(model, cluster, knobs).collect()) {
    need(key);
    if (launches && is_issued(key)) need(key.launch());
  }
  return missing;
}

std::string benchmark_requests_json(const std::vector<CostKey>& keys, const Model& model) {
  const auto heaviest = std::ranges::max_element(model.operators, [](const Operator& a, const Operator& b) {
    return std::pair(a.forward_flops, a.parameter_bytes) < std::pair(b.forward_flops, b.parameter_bytes);
  });
  Companion beside{heaviest->cost_key, model.dtype, 1};
  const CostKey* const named = most_samples(keys, heaviest->cost_key);
  const std::vector<std::int32_t> possible = possible_samples(model, {1});
  if (named != nullptr) {
    beside.samples = named->samples;
  } else if (!possible.empty()) {
    beside.samples = possible[possible.size() / 2];
  }
  Json items = Json::array();
  for (const CostKey& key : keys) {
    Json item = item_of(key, beside);
    if (!item.is_null() && std::find(items.begin(), items.end(), item) == items.end()) items.push_back(std::move(item));
  }
  return Json{{"schema", "trimtab.benchmark_requests/1"},
              {"relative_error", kRelativeError},
              {"max_repetitions", kRepetitionsMax},
              {"min_repetitions", kRepetitionsMin},
              {"items", std::move(items)}}
      .dump();
}

}  // namespace trimtab::tuner
