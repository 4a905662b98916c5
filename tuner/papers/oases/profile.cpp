#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "native/costs/curve.hpp"
#include "native/costs/overlap_costs.hpp"
#include "papers/oases/tables.hpp"

namespace trimtab::tuner::oases {
namespace {

constexpr double kMsPerNs = 1e-6;

// By group size. A group of one has an entry where a profile says so: the published one does.
std::map<std::int32_t, Curve> all_reduces(const std::vector<Cost>& costs) {
  std::map<std::int32_t, std::map<std::int64_t, Statistics>> points;
  for (const Cost& cost : costs) {
    const CostKey& key = cost.key;
    const bool plain = key.kind == CostKind::kCollective && key.subject == "all_reduce" && !key.particular();
    if (plain && !cost.statistics.empty()) points[key.group_size][key.bytes].merge(cost.statistics);
  }
  std::map<std::int32_t, Curve> curves;
  for (const auto& [group, of] : points) curves.emplace(group, Curve(of, kMsPerNs));
  return curves;
}

bool communicates(const Operator& op) {
  return op.kind == "attention" || op.kind == "mlp";
}

// What one degree has, node by node.
struct Column {
  Doubles forward, backward, communication, memory;
  double buffer = 0;
  std::string missing;  // the first cost that is
};

class ColumnMaker {
 public:
  ColumnMaker(const Model& model, std::int32_t devices, const std::vector<Cost>& costs)
      : model_(model),
        devices_(devices),
        operators_(measured_operators(model, choose_costs(costs))),
        reduces_(all_reduces(costs)) {}

  Column column(std::int32_t tp) {
    column_ = {};
    tp_ = tp;
    const std::int64_t samples = static_cast<std::int64_t>(model_.global_batch) * tp;
    if (samples % (2 * devices_) != 0) {
      column_.missing = "tp " + std::to_string(tp) + ": an even number of samples for each of " +
                        std::to_string(devices_ / tp) + " replicas (" + std::to_string(model_.global_batch) +
                        " in all)";
      return column_;
    }
    samples_ = static_cast<std::int32_t>(samples / devices_);
    for (const Operator& op : model_.operators) add(op);
    column_.buffer = std::round(value(model_.operators.back(), OperatorPart::kWorking, samples_));
    return column_;
  }

 private:
  void add(const Operator& op) {
    const double reduce = communication(op);
    const double inside = tp_ > 1 ? reduce : 0;  // operators' times contain their collectives
    column_.communication.push_back(reduce);
    column_.forward.push_back(std::max(0.0, value(op, OperatorPart::kForward, samples_ / 2) - inside));
    column_.backward.push_back(std::max(0.0, value(op, OperatorPart::kBackward, samples_ / 2) - inside));
    const double copies = 1 + model_.gradient_bytes_per_parameter_byte + model_.optimizer_bytes_per_parameter_byte;
    column_.memory.push_back(std::round(static_cast<double>(op.activation_bytes) * samples_ + copies * parameters(op)));
  }

  double value(const Operator& op, OperatorPart part, std::int32_t samples) {
    const Value found = measured(op, part, samples);
    if (found.quality != Quality::kMissing) return found.mean;
    static constexpr const char* kNames[] = {"operator_forward ", "operator_backward ", "", "operator_working_bytes "};
    miss(kNames[static_cast<std::size_t>(part)] + op.cost_key + " " + model_.dtype +
         " samples=" + std::to_string(samples) + " tp=" + std::to_string(tp_));
    return 0;
  }

  [[nodiscard]] Value measured(const Operator& op, OperatorPart part, std::int32_t samples) const {
    const OperatorCurves* const curves = operators_.at(op.cost_key).find(tp_, false);
    return curves == nullptr ? Value{} : (*curves)[part].at(samples);
  }

  // Of one sub-batch.
  double communication(const Operator& op) {
    const std::int64_t bytes = op.output_bytes * (samples_ / 2);
    if (!communicates(op) || bytes == 0) return 0;
    const auto curve = reduces_.find(tp_);
    if (curve == reduces_.end() && tp_ == 1) return 0;
    const Value found = curve == reduces_.end() ? Value{} : curve->second.at(bytes);
    if (found.quality != Quality::kMissing) return found.mean;
    miss("collective all_reduce bytes=" + std::to_string(bytes) + " group_size=" + std::to_string(tp_));
    return 0;
  }

  // Bytes on one rank; split evenly where nobody says which part is.
  [[nodiscard]] double parameters(const Operator& op) const {
    const Value found = measured(op, OperatorPart::kParameters, samples_);
    return found.quality == Quality::kMissing ? static_cast<double>(op.parameter_bytes) / tp_ : found.mean;
  }

  void miss(std::string what) {
    if (column_.missing.empty()) column_.missing = std::move(what);
  }

  const Model& model_;
  std::int32_t devices_;
  std::map<std::string, MeasuredOperator> operators_;
  std::map<std::int32_t, Curve> reduces_;
  Column column_;
  std::int32_t tp_ = 1;
  std::int32_t samples_ = 0;
};

Doubles by_node(const std::vector<Column>& columns, Doubles Column::*part) {
  Doubles all;
  for (std::size_t n = 0; n < (columns.front().*part).size(); ++n) {
    for (const Column& column : columns) all.push_back((column.*part)[n]);
  }
  return all;
}

double smallest_memory(const Cluster& cluster) {
  double least = std::numeric_limits<double>::infinity();
  for (const Node& node : cluster.nodes) {
    if (node.memory_bytes > 0) least = std::min(least, static_cast<double>(node.memory_bytes));
  }
  return least;
}

OverlapSlowdown largest_slowdown(const std::vector<Cost>& costs, const std::vector<std::int32_t>& degrees) {
  const OverlapCosts overlaps(costs);
  OverlapSlowdown largest;
  for (const std::int32_t degree : degrees) {
    for (const Placement placement : {Placement::kIntraNode, Placement::kInterNode}) {
      const OverlapSlowdown of = overlaps.of_benchmark(degree, placement);
      largest.computation = std::max(largest.computation, of.computation);
      largest.communication = std::max(largest.communication, of.communication);
      largest.measured = largest.measured || of.measured;
    }
  }
  return largest;
}

}  // namespace

Result<Chain> chain_from_costs(const Model& model, const Cluster& cluster, const std::vector<Cost>& costs) {
  const std::int32_t devices = cluster.devices();
  ColumnMaker maker(model, devices, costs);
  Chain chain;
  std::vector<Column> columns;
  std::string missing;
  for (std::int32_t tp = 1; tp <= devices; tp *= 2) {
    if (devices % tp != 0) continue;
    Column column = maker.column(tp);
    if (column.missing.empty()) {
      chain.degrees.push_back(tp);
      columns.push_back(std::move(column));
    } else {
      missing += "\n  " + column.missing;
    }
  }
  if (columns.empty()) {
    return bad_input("the oases cost model: no tensor-parallel degree of " + std::to_string(devices) +
                     " devices can be priced; each needs its costs for half of a replica's samples, found missing:" +
                     missing + "\nProfile these, or use a cluster or global batch that the profile covers");
  }
  chain.nodes = static_cast<std::int32_t>(model.operators.size());
  chain.forward = by_node(columns, &Column::forward);
  chain.backward = by_node(columns, &Column::backward);
  chain.communication = by_node(columns, &Column::communication);
  chain.memory = by_node(columns, &Column::memory);
  for (const Column& column : columns) chain.buffer.push_back(column.buffer);
  chain.limit = smallest_memory(cluster);
  chain.slowdown = largest_slowdown(costs, chain.degrees);
  return chain;
}

}  // namespace trimtab::tuner::oases
