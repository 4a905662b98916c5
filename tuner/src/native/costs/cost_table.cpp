#include "native/costs/cost_basis.hpp"
#include "native/costs/operator_traits.hpp"
#include "native/costs/tables.hpp"
#include "native/costs/tensor_estimate.hpp"
#include "plan/plan_space.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kMsPerNs = 1e-6;
constexpr std::int32_t kEveryDegree = 16;  // up to here every tensor-parallel degree has a table, above powers of two

using Measured = std::map<std::string, MeasuredOperator>;

void number_groups(const Model& model, CostTable::Tables& tables) {
  std::map<std::tuple<std::string, Bytes, Bytes, Bytes, Bytes, std::int32_t, Bytes, bool>, std::int32_t> number;
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    const Operator& op = model.operators[i];
    const auto [position, fresh] = number.emplace(
        std::tuple(op.cost_key, op.parameter_bytes, op.activation_bytes, op.output_bytes, key_value_bytes(op),
                   tensor_all_reduces(op).value_or(-1), replicated_activation_bytes(op), op.output_saved),
        static_cast<std::int32_t>(number.size()));
    tables.group_of.push_back(position->second);
    tables.alternates = tables.alternates || op.shardings.size() > 1;
    if (!fresh) continue;
    tables.group_names.push_back(op.cost_key);
    tables.first_of.push_back(static_cast<std::int32_t>(i));
  }
}

// Part of no layer, whatever number of a layer they bear.
bool stands_apart(const Operator& op) {
  return op.kind == "embedding" || op.kind == "head" || op.kind == "loss" || op.kind == "final_norm";
}

// RecomputeUnit of schema/model.hpp.
bool ends_run(const Model& model, std::size_t op) {
  if (model.recompute_unit == RecomputeUnit::kOperator || op + 1 == model.operators.size()) return true;
  const Operator& of = model.operators[op];
  const Operator& next = model.operators[op + 1];
  return of.layer != next.layer || stands_apart(of) || stands_apart(next);
}

void find_runs(const Model& model, CostTable::Tables& tables) {
  for (std::size_t op = 0; op < model.operators.size(); ++op) {
    tables.ends_run.push_back(ends_run(model, op) ? 1 : 0);
    tables.output_unread.push_back(tables.ends_run.back() == 0 && !model.operators[op].output_saved ? 1 : 0);
  }
}

constexpr double kDoubtOfEstimates = 0.2;  // of the mean
constexpr double kDoubtOfFlops = 0.4;      // what computes little moves much

Value estimate(double mean, double doubt = kDoubtOfEstimates) {
  return {mean, doubt * mean, Quality::kEstimated};
}

// Milliseconds of all samples for one flop of each, as all measured operators of one rank take together; 0 = unknown.
struct Pace {
  double forward = 0;
  double backward = 0;
};

double at_or_near(const Curve& curve, std::int32_t samples) {
  const Value value = curve.at(samples);
  return (value.quality == Quality::kMissing ? curve.of_samples(samples) : value).mean;
}

Pace pace_of(const CostTable::Tables& tables, const Measured& measured, std::int32_t samples) {
  Pace pace;
  double flops = 0;
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    const std::int64_t each = tables.operator_of(static_cast<std::int32_t>(g)).forward_flops;
    const OperatorCurves* const curves = measured.at(tables.group_names[g]).find(1, false);
    if (each <= 0 || curves == nullptr) continue;
    const Curve& forward = (*curves)[OperatorPart::kForward];
    const Curve& backward = (*curves)[OperatorPart::kBackward];
    if (forward.empty() || backward.empty()) continue;
    flops += static_cast<double>(each);
    pace.forward += at_or_near(forward, samples);
    pace.backward += at_or_near(backward, samples);
  }
  return flops > 0 ? Pace{pace.forward / flops, pace.backward / flops} : Pace{};
}

bool is_pass(OperatorPart part) {
  return part == OperatorPart::kForward || part == OperatorPart::kBackward;
}

// The costs of one group at one (samples, tp, choice).
class Lookup {
 public:
  Lookup(const CostTable::Tables& tables, const MeasuredOperator& measured, const Operator& op, const Pace& pace,
         bool allow_estimates)
      : tables_(tables), measured_(measured), op_(op), pace_(pace), allow_estimates_(allow_estimates) {
    const auto index = static_cast<std::size_t>(&op - tables.model.operators.data());
    if (index > 0) input_bytes_ = tables.model.operators[index - 1].output_bytes;
  }

  [[nodiscard]] OperatorCosts at(std::int32_t samples, std::int32_t tp, bool alternate) const {
    const bool has_choice = alternate && op_.shardings.size() > 1;
    OperatorCosts costs;
    const Pass forward = pass(OperatorPart::kForward, samples, tp, has_choice);
    const Pass backward = pass(OperatorPart::kBackward, samples, tp, has_choice);
    costs.forward = forward.time;
    costs.backward = backward.time;
    costs.least_forward = forward.least;
    costs.least_backward = backward.least;
    costs.stored = stored(samples, tp, has_choice);
    costs.working = value(OperatorPart::kWorking, samples, tp, has_choice);
    if (costs.working.quality != Quality::kMeasured) take_reserves(samples, tp, has_choice, costs);
    if (costs.working.quality == Quality::kMissing) {
      costs.working = memory(OperatorPart::kWorking, samples, tp, has_choice);
    }
    costs.parameters = static_cast<double>(op_.parameter_bytes) / tp;
    const Value parameters = value(OperatorPart::kParameters, samples, tp, has_choice);
    if (parameters.quality == Quality::kMeasured && op_.parameter_bytes > 0) costs.parameters = parameters.mean;
    return costs;
  }

 private:
  // Measured at this tp and choice, or, where estimates are allowed, the nearest samples.
  [[nodiscard]] Value value(OperatorPart part, std::int32_t samples, std::int32_t tp, bool alternate) const {
    const OperatorCurves* const curves = measured_.find(tp, alternate);
    if (curves == nullptr) return {};
    const Curve& curve = (*curves)[part];
    const Value value = curve.at(samples);
    if (value.quality != Quality::kMissing || !allow_estimates_ || curve.empty()) return value;
    return is_pass(part) ? curve.of_samples(samples) : curve.nearest(samples);
  }

  // Bytes: the same, or the cost of the first choice, or of one rank, shared.
  [[nodiscard]] Value shared(OperatorPart part, std::int32_t samples, std::int32_t tp, bool alternate) const {
    Value found = value(part, samples, tp, alternate);
    if (found.quality != Quality::kMissing || !allow_estimates_) return found;
    if (alternate) found = value(part, samples, tp, false);
    if (found.quality != Quality::kMissing) return estimate(found.mean);
    found = value(part, samples, 1, false);
    if (found.quality == Quality::kMissing || tp == 1) return found;
    return estimate(found.mean / tp);
  }

  struct Pass {
    Value time;
    double least = 0;  // OperatorCosts::least_forward
  };

  // Computing without all-reduces, and on how many ranks it was measured; 0 ranks = nowhere.
  struct Computing {
    Value time;
    std::int32_t ranks = 0;
    [[nodiscard]] double shared_by(std::int32_t tp) const { return ranks == 0 ? 0 : time.mean * ranks / tp; }
  };

  // Measured at this tp and choice; or where estimates are allowed as the first choice takes, or made from fewer ranks.
  [[nodiscard]] Pass pass(OperatorPart part, std::int32_t samples, std::int32_t tp, bool alternate) const {
    const Computing fewer = tp == 1 ? Computing{} : computing_of_fewer(part, samples, tp);
    Value found = value(part, samples, tp, alternate);
    if (found.quality == Quality::kMissing && alternate && allow_estimates_) {
      const Value first = value(part, samples, tp, false);
      if (first.quality != Quality::kMissing) found = estimate(first.mean);
    }
    if (found.quality != Quality::kMissing) return {found, std::min(found.mean, fewer.shared_by(tp))};
    if (!allow_estimates_) return {};
    if (tp == 1) return {by_flops(part), 0};
    const Value computing =
        fewer.ranks > 0 ? shared_computing(fewer.time, fewer.ranks, tp) : shared_computing(by_flops(part), 1, tp);
    return {add_reduces(computing, part, samples, tp), computing.mean};
  }

  // On the most ranks below `tp` that were measured: they show best what more of them lose.
  [[nodiscard]] Computing computing_of_fewer(OperatorPart part, std::int32_t samples, std::int32_t tp) const {
    Computing fewer;
    for (const auto& [at, curves] : measured_.at) {
      const auto [ranks, alternate] = at;
      if (alternate || ranks >= tp) continue;
      Value time = value(part, samples, ranks, false);
      if (time.quality == Quality::kMissing) continue;
      if (ranks > 1) time.mean = std::max(time.mean - contained_ms(part, samples, ranks), fewer.shared_by(ranks));
      fewer = {time, ranks};
    }
    return fewer;
  }

  [[nodiscard]] Value reduce_of(Bytes bytes, std::int32_t samples, std::int32_t tp) const {
    return tables_.links.all_reduce(bytes * samples, tp, Placement::kIntraNode);
  }

  [[nodiscard]] double contained_ms(OperatorPart part, std::int32_t samples, std::int32_t tp) const {
    const PassReduces reduces = pass_reduces(part);
    return reduces.count.value_or(0) * reduce_of(reduces.bytes, samples, tp).mean;
  }

  [[nodiscard]] Value add_reduces(const Value& computing, OperatorPart part, std::int32_t samples,
                                  std::int32_t tp) const {
    const PassReduces reduces = pass_reduces(part);
    return with_all_reduces(computing, reduces.count, reduce_of(reduces.bytes, samples, tp));
  }

  // Of a vocabulary that is divided the embedding adds its output up, and the head the gradient of its input.
  struct PassReduces {
    std::optional<std::int32_t> count;
    Bytes bytes = 0;
  };
  [[nodiscard]] PassReduces pass_reduces(OperatorPart part) const {
    const bool forward = part == OperatorPart::kForward;
    if (op_.kind == "embedding") return {forward ? 1 : 0, op_.output_bytes};
    if (op_.kind == "head") return {forward ? 0 : 1, input_bytes_};
    const std::optional<std::int32_t> said = tensor_all_reduces(op_);
    if (!said && op_.parameter_bytes == 0) return {0, 0};
    return {said, op_.output_bytes};
  }

  // Where no time was ever measured: as many flops as the model says, at the pace of its measured operators.
  [[nodiscard]] Value by_flops(OperatorPart part) const {
    const double pace = part == OperatorPart::kForward ? pace_.forward : pace_.backward;
    if (pace <= 0 || op_.forward_flops <= 0) return {};
    return estimate(static_cast<double>(op_.forward_flops) * pace, kDoubtOfFlops);
  }

  [[nodiscard]] bool measured_at(OperatorPart part, std::int32_t tp) const {
    for (const bool alternate : {false, true}) {
      const OperatorCurves* const curves = measured_.find(tp, alternate);
      if (curves != nullptr && !(*curves)[part].empty()) return true;
    }
    return false;
  }

  // What tensor-parallel ranks hold whole is not divided: neither of what one rank was measured to store, nor of what
  // the model document says.
  [[nodiscard]] Value stored(std::int32_t samples, std::int32_t tp, bool alternate) const {
    Value found = memory(OperatorPart::kStored, samples, tp, alternate);
    const auto all = static_cast<double>(op_.activation_bytes);
    if (found.quality != Quality::kEstimated || tp == 1 || all <= 0) return found;
    if (measured_at(OperatorPart::kStored, tp)) return found;
    const double whole = static_cast<double>(replicated_activation_bytes(op_)) / all;
    return estimate(found.mean * (1 + whole * (tp - 1)));
  }

  // Where memory was never measured, an estimate may come from the model document.
  [[nodiscard]] Value memory(OperatorPart part, std::int32_t samples, std::int32_t tp, bool alternate) const {
    const Value found = shared(part, samples, tp, alternate);
    if (found.quality != Quality::kMissing || !allow_estimates_ || op_.activation_bytes <= 0) return found;
    return estimate(static_cast<double>(op_.activation_bytes) * samples / tp);
  }

  void take_reserves(std::int32_t samples, std::int32_t tp, bool alternate, OperatorCosts& costs) const {
    const Value forward = value(OperatorPart::kForwardReserve, samples, tp, alternate);
    const Value backward = value(OperatorPart::kBackwardReserve, samples, tp, alternate);
    if (forward.quality == Quality::kMissing || backward.quality == Quality::kMissing) return;
    costs.working = {0, 0, std::max(forward.quality, backward.quality)};
    costs.forward_reserve = forward.mean;
    costs.backward_reserve = backward.mean;
  }

  const CostTable::Tables& tables_;
  const MeasuredOperator& measured_;
  const Operator& op_;
  const Pace& pace_;
  bool allow_estimates_;
  Bytes input_bytes_ = 0;  // of one sample
};

void spread_over_operators(const std::vector<std::int32_t>& group_of, OperatorTable& table) {
  const std::size_t operators = group_of.size();
  for (Doubles* const by_operator : {&table.forward, &table.backward, &table.stored}) {
    by_operator->clear();
    by_operator->reserve(operators);
  }
  for (Doubles* const sums : {&table.forward_sum, &table.backward_sum}) {
    sums->reserve(operators + 1);
    sums->assign(1, 0);
  }
  table.gaps.reserve(operators + 1);
  table.gaps.assign(1, 0);
  for (const std::int32_t group : group_of) {
    const OperatorCosts& costs = table.of_group[group];
    table.forward.push_back(costs.forward.mean);
    table.backward.push_back(costs.backward.mean);
    table.stored.push_back(costs.stored.mean);
    table.forward_sum.push_back(table.forward_sum.back() + costs.forward.mean);
    table.backward_sum.push_back(table.backward_sum.back() + costs.backward.mean);
    table.gaps.push_back(table.gaps.back() + (costs.complete() ? 0 : 1));
  }
}

void scale(OperatorCosts& costs, double passes, double memory) {
  for (Value* const pass : {&costs.forward, &costs.backward}) {
    pass->mean *= passes;
    pass->error *= passes;
    pass->spread *= passes;
  }
  costs.least_forward *= passes;
  costs.least_backward *= passes;
  for (Value* const bytes : {&costs.stored, &costs.working}) {
    bytes->mean *= memory;
    bytes->error *= memory;
  }
  costs.forward_reserve *= memory;
  costs.backward_reserve *= memory;
}

OperatorTable operator_table(const CostTable::Tables& tables, const Measured& measured, std::int32_t samples,
                             std::int32_t tp, bool alternate, bool allow_estimates) {
  OperatorTable table;
  table.samples = samples;
  table.tp = tp;
  const Pace pace = allow_estimates ? pace_of(tables, measured, samples) : Pace{};
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    const Operator& op = tables.operator_of(static_cast<std::int32_t>(g));
    const Lookup lookup(tables, measured.at(tables.group_names[g]), op, pace, allow_estimates);
    table.of_group.push_back(lookup.at(samples, tp, alternate));
  }
  spread_over_operators(tables.group_of, table);
  return table;
}

// Degrees that some plan of the cluster may use, or that somebody has measured.
std::set<std::int32_t> tensor_degrees(const Cluster& cluster, const Measured& measured) {
  std::set<std::int32_t> degrees{1};
  std::int32_t widest = 1;
  for (const Node& node : cluster.nodes) widest = std::max(widest, node.devices);
  for (std::int32_t tp = 2; tp <= std::min(widest, kEveryDegree); ++tp) degrees.insert(tp);
  for (std::int32_t tp = 2; tp <= widest; tp *= 2) degrees.insert(tp);
  for (const auto& [name, of] : measured) {
    for (const auto& [at, curves] : of.at) degrees.insert(at.first);
  }
  return degrees;
}

void fill_operators(const Measured& measured, const std::vector<std::int32_t>& samples, bool allow_estimates,
                    CostTable::Tables& tables) {
  const std::set<std::int32_t> degrees = tensor_degrees(tables.cluster, measured);
  tables.tp_index.assign(static_cast<std::size_t>(*degrees.rbegin()) + 1, -1);
  tables.tp_count = 0;
  for (const std::int32_t tp : degrees) tables.tp_index[tp] = tables.tp_count++;
  std::int32_t index = 0;
  for (const std::int32_t count : samples) {
    tables.sample_index.resize(static_cast<std::size_t>(count) + 1, -1);
    tables.sample_index[count] = index++;
    for (const std::int32_t tp : degrees) {
      tables.operator_tables.push_back(operator_table(tables, measured, count, tp, false, allow_estimates));
      if (!tables.alternates) continue;
      tables.operator_tables.push_back(operator_table(tables, measured, count, tp, true, allow_estimates));
    }
  }
  tables.unknown.of_group.resize(tables.group_names.size());
  spread_over_operators(tables.group_of, tables.unknown);
}

void fill_sharing(const Measured& measured, CostTable::Tables& tables) {
  tables.pass_factors.assign(tables.group_names.size(), 1.0);
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    for (const auto& [at, curves] : measured.at(tables.group_names[g]).sharing) {
      tables.sharing_curves[{static_cast<std::int32_t>(g), at.first, at.second}] = curves;
    }
  }
}

UpdatePace update_pace(const CostTable::Tables& tables, const Measured& measured) {
  UpdatePace pace;
  const std::int32_t most = std::max(1, tables.model.global_batch);  // where passes are most efficient
  pace.ms_per_flop = pace_of(tables, measured, most).forward / most;
  double ms = 0;
  double bytes = 0;
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    const MeasuredUpdate& optimizer = measured.at(tables.group_names[g]).optimizer;
    if (optimizer.empty()) continue;
    ms += optimizer.ms().mean;
    bytes += static_cast<double>(tables.operator_of(static_cast<std::int32_t>(g)).parameter_bytes);
  }
  if (bytes > 0) pace.ms_per_byte = ms / bytes;
  return pace;
}

double forward_of_one_sample(const MeasuredOperator& of) {
  const OperatorCurves* const curves = of.find(1, false);
  if (curves == nullptr || (*curves)[OperatorPart::kForward].empty()) return 0;
  return at_or_near((*curves)[OperatorPart::kForward], 1);
}

void fill_parameters(const Measured& measured, bool allow_estimates, CostTable::Tables& tables) {
  const Model& model = tables.model;
  const UpdatePace pace = allow_estimates ? update_pace(tables, measured) : UpdatePace{};
  for (std::size_t g = 0; g < tables.group_names.size(); ++g) {
    const MeasuredOperator& of = measured.at(tables.group_names[g]);
    Value update;
    if (!of.optimizer.empty()) {
      update = of.optimizer.ms();
    } else if (allow_estimates) {
      const Operator& op = tables.operator_of(static_cast<std::int32_t>(g));
      update = estimated_update(model, op, pace, forward_of_one_sample(of));
    }
    tables.optimizer_of_group.push_back(update);
    tables.host_optimizer_of_group.push_back(of.host_optimizer.empty() ? Value{} : of.host_optimizer.ms());
  }
  tables.gradient_factor = model.gradient_bytes_per_parameter_byte;
  tables.optimizer_factor = model.optimizer_bytes_per_parameter_byte;
  tables.optimizer_sum = {0.0};
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    const bool trained = model.operators[i].parameter_bytes > 0;
    const double optimizer = trained ? tables.optimizer_of_group[tables.group_of[i]].mean : 0;
    tables.optimizer_sum.push_back(tables.optimizer_sum.back() + optimizer);
    tables.output.push_back(static_cast<double>(model.operators[i].output_bytes));
  }
}

void leave_out_optimizer(CostTable::Tables& tables) {
  tables.passes_only = true;
  std::ranges::fill(tables.optimizer_of_group, Value{0, 0, Quality::kMeasured});
  std::ranges::fill(tables.optimizer_sum, 0.0);
}

void fill_process(const std::vector<ChosenCost>& costs, bool allow_estimates, CostTable::Tables& tables) {
  for (const ChosenCost& cost : costs) {
    if (cost.key.kind == CostKind::kProcessBytes) tables.process_bytes = measured(cost.statistics, 1);
    if (cost.key.kind == CostKind::kStepOverhead) tables.step_overhead_ms = cost.statistics.mean() * kMsPerNs;
  }
  if (tables.process_bytes.quality == Quality::kMissing && allow_estimates) {
    tables.process_bytes = {0, 0, Quality::kEstimated};
  }
}

// Samples per replica that some plan may use, halves for sliced microbatches and sub-batches included.
std::vector<std::int32_t> sample_counts(const Model& model, const Cluster& cluster) {
  const std::vector<std::int32_t> whole = possible_samples(model, possible_degrees(model, cluster, Knobs{}));
  std::set<std::int32_t> counts(whole.begin(), whole.end());
  for (const std::int32_t samples : whole) {
    if (samples % 2 == 0) counts.insert(samples / 2);
  }
  return {counts.begin(), counts.end()};
}

// At least one cost that a plan on single ranks could use, or on several.
bool shares_anything(const Measured& measured, bool any_tp) {
  return std::ranges::any_of(measured, [any_tp](const auto& entry) {
    return any_tp ? !entry.second.at.empty() : entry.second.find(1, false) != nullptr;
  });
}

}  // namespace

Result<CostTable> CostTable::build(const Model& model, const Cluster& cluster, const std::vector<Cost>& costs,
                                   CostTableOptions options) {
  auto tables = std::make_shared<Tables>();
  tables->model = model;
  tables->cluster = cluster;
  tables->overlaps = OverlapCosts(costs);
  tables->launches = LaunchCosts(model, costs);
  number_groups(model, *tables);
  find_runs(model, *tables);
  const std::vector<ChosenCost> chosen = choose_costs(costs);
  tables->links = LinkCosts(cluster, chosen, options.allow_estimates);
  tables->training_corrections = tuner::training_corrections(chosen);
  tables->bases = bases_of(chosen);
  const Measured measured = measured_operators(model, chosen);
  if (!shares_anything(measured, cluster.devices() > 1)) {
    return bad_input("costs: need the operators of model '" + model.name + "' in " + model.dtype +
                     ", found none of its " + std::to_string(measured.size()) + " cost keys (" +
                     tables->group_names.front() + ", ...) among " + std::to_string(costs.size()) +
                     " costs; profile the model on this hardware first");
  }
  tables->device_share = options.device_share;
  fill_sharing(measured, *tables);
  fill_parameters(measured, options.allow_estimates, *tables);
  if (options.passes_only) leave_out_optimizer(*tables);
  fill_process(chosen, options.allow_estimates, *tables);
  // Any plan of the model may be priced, whatever the knobs of a job.
  fill_operators(measured, sample_counts(model, cluster), options.allow_estimates, *tables);
  return CostTable(std::move(tables));
}

CostTable CostTable::on(const Cluster& cluster) const {
  auto tables = std::make_shared<Tables>(*tables_);
  tables->cluster = cluster;
  return CostTable(std::move(tables));
}

CostTable CostTable::scaled(const std::map<std::string, double>& passes, double memory) const {
  auto tables = std::make_shared<Tables>(*tables_);
  std::vector<double> factors;
  for (const std::string& group : tables->group_names) {
    const auto found = passes.find(group);
    factors.push_back(found == passes.end() ? 1 : found->second);
  }
  for (OperatorTable& table : tables->operator_tables) {
    for (std::size_t g = 0; g < factors.size(); ++g) scale(table.of_group[g], factors[g], memory);
    spread_over_operators(tables->group_of, table);
  }
  for (std::size_t g = 0; g < factors.size(); ++g) tables->pass_factors[g] *= factors[g];
  tables->memory_factor *= memory;
  return CostTable(std::move(tables));
}

const std::map<std::string, double>& CostTable::training_corrections() const {
  return tables_->training_corrections;
}
const Model& CostTable::model() const {
  return tables_->model;
}
const Cluster& CostTable::cluster() const {
  return tables_->cluster;
}

}  // namespace trimtab::tuner
