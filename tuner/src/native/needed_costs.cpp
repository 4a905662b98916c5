#include "tuner/needed_costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "native/costs/link_costs.hpp"
#include "native/costs/operator_traits.hpp"
#include "native/costs/overlap_costs.hpp"
#include "native/stage/operator_price.hpp"
#include "native/stage/switch_stage.hpp"
#include "plan/plan_space.hpp"
#include "tuner/cost_choice.hpp"

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
    chosen.insert(*std::min_element(sorted.begin(), sorted.end(), [target](Integer a, Integer b) {
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

std::int64_t as_bytes(double bytes) {
  return static_cast<std::int64_t>(std::llround(bytes));
}

class Needed {
 public:
  Needed(const Model& model, const Cluster& cluster, const Knobs& knobs)
      : model_(model), cluster_(cluster), knobs_(knobs), microbatches_(allowed_microbatches(model)) {
    for (const std::int32_t tp : tensor_degrees(cluster, knobs)) {
      std::vector<std::int32_t> replicas = possible_degrees(model, cluster, knobs, tp);
      if (!replicas.empty()) widths_.push_back({tp, std::move(replicas)});
    }
  }

  std::set<CostKey> collect() {
    for (const Width& width : widths_) add_operators(width);
    add_optimizers();
    if (knobs_.data_parallel) add_gradients();
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
  };

  // More samples than the largest device could hold of this operator alone cannot be in a plan that fits.
  [[nodiscard]] bool could_fit(const Operator& op, std::int32_t samples, std::int32_t tp) const {
    Bytes most = 0;
    for (const Node& node : cluster_.nodes) {
      if (node.memory_bytes <= 0) return true;
      most = std::max(most, node.memory_bytes);
    }
    return static_cast<double>(op.activation_bytes) * samples / tp <= static_cast<double>(most);
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

  void add_operators(const Width& width) {
    const std::vector<std::int32_t> samples = sample_counts(width);
    std::set<std::string> seen;
    for (const Operator& op : model_.operators) {
      if (!seen.insert(op.cost_key).second) continue;
      std::vector<std::int32_t> fitting;
      for (const std::int32_t count : samples) {
        if (could_fit(op, count, width.tp)) fitting.push_back(count);
      }
      for (const std::int32_t count : bracket(fitting, kSampleCounts)) add_operator(op, count, width.tp);
    }
  }

  void add_operator(const Operator& op, std::int32_t samples, std::int32_t tp) {
    for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward, CostKind::kOperatorStoredBytes,
                                CostKind::kOperatorWorkingBytes}) {
      CostKey key;
      key.kind = kind;
      key.subject = op.cost_key;
      key.dtype = model_.dtype;
      key.samples = samples;
      key.tp = tp;
      keys_.insert(key);
    }
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
        if (bytes >= 1) occurring.insert(as_bytes(bytes));
      }
    }
    return bracket(std::vector<std::int64_t>(occurring.begin(), occurring.end()), kSizes);
  }

  void add_gradients() {
    std::set<std::pair<std::int32_t, std::string>> groups;
    for (const Width& width : widths_) {
      for (const std::int32_t replicas : width.replicas) {
        if (replicas < 2) continue;
        for (std::string& placement : placements(replicas * width.tp)) groups.emplace(replicas, std::move(placement));
      }
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
    key.group_size = ranks;
    key.placement = placement;
    key.bytes = sizes.back();
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
                         sizes_between(as_bytes(least / replicas), as_bytes(most / replicas) + 1));
          add_collective("reduce_scatter", replicas, placement,
                         sizes_between(as_bytes(least * gradient), as_bytes(most * gradient)));
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
      for (const std::int64_t bytes : sizes_between(as_bytes(smallest), as_bytes(largest) * largest_node(cluster_))) {
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
  std::set<CostKey> keys_;
};

// The fields that name a cost of its kind, in one form: stores may leave out what does not matter.
CostKey identity(const CostKey& key) {
  CostKey same;
  same.kind = key.kind;
  same.subject = key.subject;
  if (key.kind <= CostKind::kOptimizerStep) {
    same.dtype = key.dtype;
    same.samples = key.kind == CostKind::kOptimizerStep ? 0 : key.samples;
    same.tp = key.tp;
    same.sharding = key.sharding.empty() ? "default" : key.sharding;
    if (key.placement == "host") same.placement = key.placement;
  } else if (key.kind <= CostKind::kOverlapCommunication) {
    same.bytes = key.bytes;
    same.group_size = key.kind == CostKind::kPointToPoint ? 0 : key.group_size;
    same.placement = key.placement.empty() ? "intra_node" : key.placement;
  }
  return same;
}

}  // namespace

std::vector<CostKey> needed_costs(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                  const std::vector<Cost>& known) {
  std::set<CostKey> have;
  for (const ChosenCost& cost : choose_costs(known)) {
    if (is_known(cost)) have.insert(identity(cost.key));
  }
  const OverlapCosts overlaps(known);
  std::vector<CostKey> missing;
  for (const CostKey& key : Needed(model, cluster, knobs).collect()) {
    if (have.count(identity(key)) == 0 && !overlaps.seen_in_training(key)) missing.push_back(key);
  }
  return missing;
}

}  // namespace trimtab::tuner
