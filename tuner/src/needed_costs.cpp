#include "tuner/needed_costs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "link_costs.hpp"
#include "plan_space.hpp"

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

class Needed {
 public:
  Needed(const Model& model, const Cluster& cluster, const Knobs& knobs)
      : model_(model), cluster_(cluster), knobs_(knobs), degrees_(possible_degrees(model, cluster, knobs)) {}

  std::set<CostKey> collect() {
    add_operators();
    if (knobs_.data_parallel) add_collectives();
    if (knobs_.pipeline && cluster_.devices() > 1) add_transfers();
    CostKey process;
    process.kind = CostKind::kProcessBytes;
    process.subject = "process";
    keys_.insert(process);
    return std::move(keys_);
  }

 private:
  // More samples than the largest device could hold of this operator alone cannot be in a plan that fits.
  [[nodiscard]] bool could_fit(const Operator& op, std::int32_t samples) const {
    Bytes most = 0;
    for (const Node& node : cluster_.nodes) {
      if (node.memory_bytes <= 0) return true;
      most = std::max(most, node.memory_bytes);
    }
    return static_cast<double>(op.activation_bytes) * samples <= static_cast<double>(most);
  }

  // Halves of sliced microbatches included.
  [[nodiscard]] std::vector<std::int32_t> sample_counts() const {
    const std::vector<std::int32_t> whole = possible_samples(model_, degrees_);
    if (!knobs_.sliced_microbatches) return whole;
    std::set<std::int32_t> counts(whole.begin(), whole.end());
    for (const std::int32_t samples : whole) {
      if (samples % 2 == 0) counts.insert(samples / 2);
    }
    return {counts.begin(), counts.end()};
  }

  void add_operators() {
    const std::vector<std::int32_t> samples = sample_counts();
    std::set<std::string> seen;
    for (const Operator& op : model_.operators) {
      if (!seen.insert(op.cost_key).second) continue;
      std::vector<std::int32_t> fitting;
      for (const std::int32_t count : samples) {
        if (could_fit(op, count)) fitting.push_back(count);
      }
      for (const std::int32_t count : bracket(fitting, kSampleCounts)) add_operator(op, count);
    }
    for (const Operator& op : model_.operators) {
      if (op.parameter_bytes == 0) continue;
      CostKey key;
      key.kind = CostKind::kOptimizerStep;
      key.subject = op.cost_key;
      key.dtype = model_.dtype;
      keys_.insert(key);
    }
  }

  void add_operator(const Operator& op, std::int32_t samples) {
    for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward, CostKind::kOperatorStoredBytes,
                                CostKind::kOperatorWorkingBytes}) {
      CostKey key;
      key.kind = kind;
      key.subject = op.cost_key;
      key.dtype = model_.dtype;
      key.samples = samples;
      keys_.insert(key);
    }
  }

  // Whether `ranks` consecutive devices can lie inside a node, or across nodes.
  [[nodiscard]] std::vector<std::string> placements(std::int32_t ranks) const {
    std::vector<std::string> names;
    const bool inside = std::any_of(cluster_.nodes.begin(), cluster_.nodes.end(),
                                    [ranks](const Node& node) { return node.devices >= ranks; });
    if (inside) names.emplace_back(to_string(Placement::kIntraNode));
    if (cluster_.nodes.size() > 1) names.emplace_back(to_string(Placement::kInterNode));
    return names;
  }

  void add_collectives() {
    std::set<std::int64_t> occurring;
    for (const Operator& op : model_.operators) {
      const auto bytes =
          static_cast<std::int64_t>(static_cast<double>(op.parameter_bytes) * model_.gradient_bytes_per_parameter_byte);
      if (bytes > 0) occurring.insert(bytes);
    }
    if (occurring.empty()) return;
    const std::vector<std::int64_t> sizes =
        bracket(std::vector<std::int64_t>(occurring.begin(), occurring.end()), kSizes);
    for (const std::int32_t degree : degrees_) {
      if (degree < 2) continue;
      for (const std::string& placement : placements(degree)) add_group(degree, placement, sizes);
    }
  }

  void add_group(std::int32_t degree, const std::string& placement, const std::vector<std::int64_t>& sizes) {
    CostKey key;
    key.subject = "all_reduce";
    key.group_size = degree;
    key.placement = placement;
    key.kind = CostKind::kCollective;
    for (const std::int64_t bytes : sizes) {
      key.bytes = bytes;
      keys_.insert(key);
    }
    for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
      key.kind = kind;
      keys_.insert(key);
    }
  }

  void add_transfers() {
    const std::vector<std::int32_t> microbatches = allowed_microbatches(model_);
    std::int64_t smallest = 0;
    std::int64_t largest = 0;
    for (const std::int32_t cut : allowed_cuts(model_)) {
      const std::int64_t bytes = model_.operators[cut - 1].output_bytes;
      if (bytes <= 0) continue;
      smallest = smallest == 0 ? bytes : std::min(smallest, bytes);
      largest = std::max(largest, bytes);
    }
    if (largest == 0 || microbatches.empty()) return;
    // Two stages of different degree may exchange a single sample.
    if (!knobs_.data_parallel) {
      const std::int32_t least = microbatches.front();
      smallest *= knobs_.sliced_microbatches && least % 2 == 0 ? least / 2 : least;
    }
    largest *= microbatches.back();
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

  const Model& model_;
  const Cluster& cluster_;
  const Knobs& knobs_;
  std::vector<std::int32_t> degrees_;
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
  for (const Cost& cost : known) {
    if (!cost.statistics.empty() && !cost.key.particular()) have.insert(identity(cost.key));
  }
  std::vector<CostKey> missing;
  for (const CostKey& key : Needed(model, cluster, knobs).collect()) {
    if (have.count(identity(key)) == 0) missing.push_back(key);
  }
  return missing;
}

}  // namespace trimtab::tuner
