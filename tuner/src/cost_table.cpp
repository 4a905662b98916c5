#include "tuner/cost_table.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "plan_space.hpp"
#include "tables.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kMsPerNs = 1e-6;

using Points = std::map<std::int64_t, Statistics>;

// Measured points of the model's operators, by group.
struct OperatorPoints {
  std::array<Points, 4> of_kind;  // forward, backward, stored bytes, working bytes
  Statistics optimizer;
};

bool is_operator_kind(CostKind kind) {
  return kind <= CostKind::kOperatorWorkingBytes;
}

void number_groups(const Model& model, CostTable::Tables& tables) {
  std::map<std::string, std::int32_t> number;
  for (const Operator& op : model.operators) {
    const auto [position, fresh] = number.emplace(op.cost_key, static_cast<std::int32_t>(number.size()));
    if (fresh) tables.group_names.push_back(op.cost_key);
    tables.group_of.push_back(position->second);
  }
}

std::vector<OperatorPoints> collect(const CostTable::Tables& tables, const std::vector<Cost>& costs) {
  std::map<std::string, std::size_t> number;
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) number[tables.group_names[g]] = g;
  std::vector<OperatorPoints> points(tables.group_names.size());
  for (const Cost& cost : costs) {
    const auto found = number.find(cost.key.subject);
    const bool fits = cost.key.dtype.empty() || cost.key.dtype == tables.model.dtype;
    if (found == number.end() || !fits || cost.statistics.empty()) continue;
    OperatorPoints& of = points[found->second];
    if (cost.key.kind == CostKind::kOptimizerStep) of.optimizer.merge(cost.statistics);
    if (!is_operator_kind(cost.key.kind) || cost.key.tp != 1 || cost.key.sharding != "default") continue;
    of.of_kind[static_cast<std::size_t>(cost.key.kind)][cost.key.samples].merge(cost.statistics);
  }
  return points;
}

struct GroupCurves {
  Curve forward, backward, stored, working;
};

Value look_up(const Curve& curve, std::int32_t samples, bool allow_estimates) {
  const Value value = curve.at(samples);
  if (value.quality == Quality::kMissing && allow_estimates && !curve.empty()) return curve.nearest(samples);
  return value;
}

// Where memory was never measured, an estimate may come from the model document.
Value memory_estimate(Value value, Bytes activation_bytes, std::int32_t samples, bool allow_estimates) {
  if (value.quality != Quality::kMissing || !allow_estimates || activation_bytes <= 0) return value;
  const double bytes = static_cast<double>(activation_bytes) * samples;
  return {bytes, 0.2 * bytes, Quality::kEstimated};
}

bool complete(const OperatorCosts& costs) {
  return costs.forward.quality != Quality::kMissing && costs.backward.quality != Quality::kMissing &&
         costs.stored.quality != Quality::kMissing && costs.working.quality != Quality::kMissing;
}

void append_operator(const OperatorCosts& costs, SampleTable& table) {
  table.forward.push_back(costs.forward.mean);
  table.backward.push_back(costs.backward.mean);
  table.stored.push_back(costs.stored.mean);
  table.working.push_back(costs.working.mean);
  table.forward_sum.push_back(table.forward_sum.back() + costs.forward.mean);
  table.backward_sum.push_back(table.backward_sum.back() + costs.backward.mean);
  table.stored_sum.push_back(table.stored_sum.back() + costs.stored.mean);
  table.gaps.push_back(table.gaps.back() + (complete(costs) ? 0 : 1));
}

SampleTable sample_table(const CostTable::Tables& tables, const std::vector<GroupCurves>& curves, std::int32_t samples,
                         bool allow_estimates) {
  SampleTable table;
  table.samples = samples;
  std::vector<Bytes> activation(curves.size(), 0);
  for (std::size_t i = 0; i < tables.group_of.size(); ++i) {
    activation[tables.group_of[i]] = tables.model.operators[i].activation_bytes;
  }
  for (std::size_t g = 0; g < curves.size(); ++g) {
    const auto memory = [&](const Curve& curve) {
      return memory_estimate(look_up(curve, samples, allow_estimates), activation[g], samples, allow_estimates);
    };
    table.of_group.push_back({look_up(curves[g].forward, samples, allow_estimates),
                              look_up(curves[g].backward, samples, allow_estimates), memory(curves[g].stored),
                              memory(curves[g].working)});
  }
  table.forward_sum = table.backward_sum = table.stored_sum = {0.0};
  table.gaps = {0};
  for (const std::int32_t group : tables.group_of) append_operator(table.of_group[group], table);
  return table;
}

void fill_parameters(const std::vector<OperatorPoints>& points, CostTable::Tables& tables) {
  const Model& model = tables.model;
  for (const OperatorPoints& of : points) {
    tables.optimizer_of_group.push_back(of.optimizer.empty() ? Value{} : measured(of.optimizer, kMsPerNs));
  }
  tables.state_factor = 1 + model.gradient_bytes_per_parameter_byte + model.optimizer_bytes_per_parameter_byte;
  tables.parameter_sum = tables.optimizer_sum = {0.0};
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    const auto parameters = static_cast<double>(model.operators[i].parameter_bytes);
    const double optimizer = parameters > 0 ? tables.optimizer_of_group[tables.group_of[i]].mean : 0;
    tables.parameter_sum.push_back(tables.parameter_sum.back() + parameters);
    tables.optimizer_sum.push_back(tables.optimizer_sum.back() + optimizer);
    tables.output.push_back(static_cast<double>(model.operators[i].output_bytes));
    tables.gradient.push_back(parameters * model.gradient_bytes_per_parameter_byte);
  }
}

void fill_process(const std::vector<Cost>& costs, bool allow_estimates, CostTable::Tables& tables) {
  for (const Cost& cost : costs) {
    if (cost.statistics.empty()) continue;
    if (cost.key.kind == CostKind::kProcessBytes) tables.process_bytes = measured(cost.statistics, 1);
    if (cost.key.kind == CostKind::kStepOverhead) tables.step_overhead_ms = cost.statistics.mean() * kMsPerNs;
  }
  if (tables.process_bytes.quality == Quality::kMissing && allow_estimates) {
    tables.process_bytes = {0, 0, Quality::kEstimated};
  }
}

void fill_samples(const std::vector<OperatorPoints>& points, const std::vector<std::int32_t>& degrees,
                  bool allow_estimates, CostTable::Tables& tables) {
  std::vector<GroupCurves> curves;
  for (const OperatorPoints& of : points) {
    curves.push_back({Curve(of.of_kind[0], kMsPerNs), Curve(of.of_kind[1], kMsPerNs), Curve(of.of_kind[2], 1),
                      Curve(of.of_kind[3], 1)});
  }
  for (const std::int32_t samples : possible_samples(tables.model, degrees)) {
    tables.sample_index.resize(static_cast<std::size_t>(samples) + 1, -1);
    tables.sample_index[samples] = static_cast<std::int32_t>(tables.samples.size());
    tables.samples.push_back(sample_table(tables, curves, samples, allow_estimates));
  }
}

SyncTable sync_table(const CostTable::Tables& tables, std::int32_t dp, Placement placement) {
  SyncTable table;
  table.overlap = tables.links.overlap(dp, placement);
  for (const double bytes : tables.gradient) {
    table.all_reduce.push_back(tables.links.all_reduce(static_cast<std::int64_t>(bytes), dp, placement));
  }
  return table;
}

}  // namespace

Result<CostTable> CostTable::build(const Model& model, const Cluster& cluster, const std::vector<Cost>& costs,
                                   CostTableOptions options) {
  auto tables = std::make_shared<Tables>();
  tables->model = model;
  tables->cluster = cluster;
  tables->links = LinkCosts(cluster, costs, options.allow_estimates);
  number_groups(model, *tables);
  const std::vector<OperatorPoints> points = collect(*tables, costs);
  const bool shared = std::any_of(points.begin(), points.end(), [](const OperatorPoints& of) {
    return std::any_of(of.of_kind.begin(), of.of_kind.end(), [](const Points& p) { return !p.empty(); });
  });
  if (!shared) {
    return bad_input("costs: need the operators of model '" + model.name + "' in " + model.dtype +
                     ", found none of its " + std::to_string(points.size()) + " cost keys (" +
                     tables->group_names.front() + ", ...) among " + std::to_string(costs.size()) +
                     " costs; profile the model on this hardware first");
  }
  // Any plan of the model may be priced, whatever the knobs of a job.
  const std::vector<std::int32_t> degrees = possible_degrees(model, cluster, Knobs{});
  fill_parameters(points, *tables);
  fill_process(costs, options.allow_estimates, *tables);
  fill_samples(points, degrees, options.allow_estimates, *tables);
  tables->sync.resize(static_cast<std::size_t>(cluster.devices()) + 1);
  for (const std::int32_t dp : degrees) {
    for (const Placement placement : {Placement::kIntraNode, Placement::kInterNode}) {
      tables->sync[dp].push_back(sync_table(*tables, dp, placement));
    }
  }
  return CostTable(std::move(tables));
}

const Model& CostTable::model() const {
  return tables_->model;
}
const Cluster& CostTable::cluster() const {
  return tables_->cluster;
}

}  // namespace trimtab::tuner
