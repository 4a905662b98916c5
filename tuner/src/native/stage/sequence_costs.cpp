#include "native/stage/sequence_costs.hpp"

#include <algorithm>
#include <numeric>

#include "native/costs/operator_traits.hpp"
#include "native/costs/tensor_estimate.hpp"
#include "native/stage/overlapped_pass.hpp"

namespace trimtab::tuner {
namespace {

constexpr double kErrorOfEstimates = 0.2;

// What passes round the ring: a rank's part of keys and values, and of all of their gradients.
struct Exchange {
  CollectiveUse gather;
  CollectiveUse scatter;
};

Exchange exchange_of(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group) {
  const double bytes = static_cast<double>(key_value_bytes(tables.operator_of(group))) * split.samples / split.split.tp;
  return {{Primitive::kAllGather, whole(bytes / split.cp), split.cp, split.context},
          {Primitive::kReduceScatter, whole(bytes), split.cp, split.context}};
}

class Estimate {
 public:
  Estimate(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group)
      : tables_(tables),
        split_(split),
        group_(group),
        plain_(tables.at(split.samples, split.split.tp).of_group[group]),
        alone_(tables.at(split.samples, 1).of_group[group]),
        exchange_(exchange_of(tables, split, group)) {
    const Operator& op = tables.operator_of(group);
    if (split.split.tp > 1) reduces_ = tensor_all_reduces(op).value_or(0);
  }

  [[nodiscard]] Value forward() const {
    return time(plain_.forward, plain_.least_forward, alone_.forward, {exchange_.gather});
  }
  [[nodiscard]] Value backward() const {
    return time(plain_.backward, plain_.least_backward, alone_.backward, {exchange_.gather, exchange_.scatter});
  }

  [[nodiscard]] Value stored() const {
    const bool by_ranks = split_.sequence && alone_.stored.quality != Quality::kMissing;
    const Value& from = by_ranks ? alone_.stored : plain_.stored;
    return estimated(from, from.mean / (split_.cp * (by_ranks ? split_.split.tp : 1)));
  }
  [[nodiscard]] Value working() const {
    return estimated(plain_.working, plain_.working.mean / split_.cp + ring_buffers());
  }
  [[nodiscard]] double reserve(double of_whole) const { return of_whole / split_.cp + ring_buffers() / 2; }

 private:
  [[nodiscard]] static Value estimated(const Value& from, double mean) {
    if (from.quality == Quality::kMissing) return {};
    return {mean, kErrorOfEstimates * mean, Quality::kEstimated};
  }

  [[nodiscard]] double ring_buffers() const {
    return split_.cp > 1 ? 2.0 * static_cast<double>(exchange_.gather.bytes) : 0;
  }

  [[nodiscard]] Value collective(const CollectiveUse& use) const {
    return tables_.links.collective(use.primitive, use.bytes, use.group_size, use.route);
  }

  // Of whole sequences, without all-reduces. Ranks that share sequences divide norms and dropout too: where this tp was
  // not measured, one rank's time says it.
  [[nodiscard]] Value computing(const Value& plain, double least, const Value& alone, const Value& reduce) const {
    const bool from_one = split_.sequence && plain.quality == Quality::kEstimated && alone.quality != Quality::kMissing;
    if (from_one) return shared_computing(alone, 1, split_.split.tp, kUndividedOfSequences);
    Value computing = plain;
    computing.mean = std::max(plain.mean - reduces_ * reduce.mean, least);
    return computing;
  }

  [[nodiscard]] Value time(const Value& plain, double least, const Value& alone,
                           const std::vector<CollectiveUse>& exchanged) const {
    Value summed{0, 0, Quality::kMeasured};
    const auto add = [&summed](const Value& value, double times) {
      summed.mean += times * value.mean;
      summed.error += times * value.error;
      summed.quality = std::max(summed.quality, value.quality);
    };
    Value computing{plain};
    if (reduces_ > 0) {
      const Value reduce = collective(tensor_use(tables_, split_, group_));
      computing = this->computing(plain, least, alone, reduce);
      summed.quality = reduce.quality;
      for (const CollectiveUse& use : output_sums(tables_, split_, group_)) add(collective(use), reduces_);
    }
    OverlappedPass pass;
    for (const CollectiveUse& use : exchanged) {
      const Value value = collective(use);
      pass.communicate(value.mean, &kNoSlowdowns);
      add(value, 0);
    }
    pass.compute(computing.mean / split_.cp, AlikeWork{exchange_slowdown(tables_, split_, group_).plain()});
    if (summed.quality == Quality::kMissing || plain.quality == Quality::kMissing) return {};
    const double doubt = computing.error / split_.cp + summed.error;
    const double mean = pass.communication_end() + summed.mean;
    return {mean, std::max(doubt, kErrorOfEstimates * mean), Quality::kEstimated};
  }

  const CostTable::Tables& tables_;
  const SplitShape& split_;
  std::int32_t group_;
  const OperatorCosts& plain_;
  const OperatorCosts& alone_;
  Exchange exchange_;
  std::int32_t reduces_ = 0;
};

// As measured; nothing for ranks of several nodes: operators are measured on the ranks of one.
class Measurement {
 public:
  Measurement(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group)
      : tables_(tables), split_(split), group_(group) {
    if (split.context.placement != Placement::kIntraNode) return;
    const auto found = tables.sharing_curves.find({group, split.split.tp, sharing_name(split.cp, split.sequence)});
    if (found != tables.sharing_curves.end()) curves_ = &found->second;
  }

  [[nodiscard]] Value at(OperatorPart part) const {
    if (curves_ == nullptr) return {};
    const Curve& curve = (*curves_)[part];
    const bool time = part == OperatorPart::kForward || part == OperatorPart::kBackward;
    Value value = curve.at(split_.samples);
    if (value.quality == Quality::kMissing && tables_.links.allows_estimates() && !curve.empty()) {
      value = time ? curve.of_samples(split_.samples) : curve.nearest(split_.samples);
    }
    const double factor = time ? tables_.pass_factors[group_] : tables_.memory_factor;
    return {value.mean * factor, value.error * factor, value.quality, value.spread * factor};
  }

 private:
  const CostTable::Tables& tables_;
  const SplitShape& split_;
  std::int32_t group_;
  const OperatorCurves* curves_ = nullptr;
};

bool missing(const Value& value) {
  return value.quality == Quality::kMissing;
}

void take_estimates(const Estimate& estimate, const OperatorCosts& plain, OperatorCosts& costs) {
  if (missing(costs.forward)) costs.forward = estimate.forward();
  if (missing(costs.backward)) costs.backward = estimate.backward();
  if (missing(costs.stored)) costs.stored = estimate.stored();
  if (!missing(costs.working)) return;
  costs.working = estimate.working();
  if (plain.forward_reserve + plain.backward_reserve <= 0) return;
  costs.working = {0, 0, costs.working.quality};
  costs.forward_reserve = estimate.reserve(plain.forward_reserve);
  costs.backward_reserve = estimate.reserve(plain.backward_reserve);
}

OperatorCosts sharing_costs(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group) {
  const OperatorTable& table = tables.at(split.samples, split.split.tp);
  OperatorCosts costs;
  if (&table == &tables.unknown) return costs;
  costs.parameters = table.of_group[group].parameters;
  const Measurement measured(tables, split, group);
  costs.forward = measured.at(OperatorPart::kForward);
  costs.backward = measured.at(OperatorPart::kBackward);
  costs.stored = measured.at(OperatorPart::kStored);
  costs.working = measured.at(OperatorPart::kWorking);
  const bool estimates = tables.links.allows_estimates() && (split.cp == 1 || knows_keys_and_values(tables.model));
  if (estimates) take_estimates(Estimate(tables, split, group), table.of_group[group], costs);
  return costs;
}

}  // namespace

OperatorCosts costs_under(const CostTable::Tables& tables, const SplitShape& split, bool alternate,
                          std::int32_t group) {
  if (split.shares_sequence()) return sharing_costs(tables, split, group);
  return tables.at(split.samples, split.split.tp, alternate).of_group[group];
}

// Frameworks exchange keys and values by sends and receives or by all-gathers: whichever training has shown.
Slowdowns exchange_slowdown(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group) {
  const ComputationKind kind = computation_of(tables.operator_of(group).kind);
  const CollectiveUse gather = exchange_of(tables, split, group).gather;
  OverlapSubject of{"send_recv", gather.bytes, split.cp, split.context.placement};
  const Slowdowns of_messages = tables.overlaps.beside(of, kind);
  const auto shown = [](const Slowdown& one) { return one.basis <= OverlapBasis::kTraining; };
  if (shown(of_messages.computation) && shown(of_messages.communication)) return of_messages;
  of.primitive = to_string(gather.primitive);
  return tables.overlaps.beside(of, kind);
}

std::vector<CollectiveUse> output_sums(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group) {
  CollectiveUse sum = tensor_use(tables, split, group);
  const double bytes = static_cast<double>(sum.bytes) / split.cp;
  sum.bytes = whole(bytes);
  if (!split.sequence) return {sum};
  sum.primitive = Primitive::kReduceScatter;
  return {sum, {Primitive::kAllGather, whole(bytes / split.split.tp), split.split.tp, split.tensor}};
}

std::vector<CollectiveUse> sharing_uses(const CostTable::Tables& tables, const SplitShape& split, std::int32_t group) {
  std::vector<CollectiveUse> uses;
  if (split.split.tp > 1 && tensor_all_reduces(tables.operator_of(group)).value_or(0) > 0) {
    uses = output_sums(tables, split, group);
    uses.push_back(tensor_use(tables, split, group));
  }
  if (split.cp == 1) return uses;
  const Exchange exchange = exchange_of(tables, split, group);
  uses.push_back(exchange.gather);
  uses.push_back(exchange.scatter);
  return uses;
}

const LeastSharingCosts::Routes& LeastSharingCosts::routes(std::int32_t tp) {
  const auto [found, added] = routes_.try_emplace(tp);
  if (!added) return found->second;
  std::vector<std::int32_t> devices(node_of_.size());
  std::iota(devices.begin(), devices.end(), 0);
  const std::int32_t ranks = tp * share_.cp;
  for (std::size_t first = 0; first + ranks <= devices.size(); first += share_.cp) {
    const SplitShape shape =
        split_shape(tables_.links.routes(), {1, tp}, 1, node_of_, devices.data() + first, ranks, share_);
    const std::pair pair(shape.tensor, shape.context);
    if (std::ranges::find(found->second, pair) == found->second.end()) found->second.push_back(pair);
  }
  return found->second;
}

std::vector<SplitShape> LeastSharingCosts::everywhere(const SplitShape& shape) {
  std::vector<SplitShape> shapes;
  for (const auto& [tensor, context] : routes(shape.split.tp)) {
    shapes.push_back(shape);
    shapes.back().tensor = tensor;
    shapes.back().context = context;
  }
  return shapes;
}

const std::vector<OperatorCosts>& LeastSharingCosts::of_groups(std::int32_t samples, std::int32_t tp) {
  const auto [found, added] = least_.try_emplace({samples, tp});
  std::vector<OperatorCosts>& least = found->second;
  if (!added) return least;
  SplitShape shape;
  shape.samples = samples;
  shape.split.tp = tp;
  shape.cp = share_.cp;
  shape.sequence = share_.parallel && tp > 1;
  least.resize(tables_.group_names.size());
  const auto take = [](const Value& value, Value& smallest) {
    if (!missing(value) && (missing(smallest) || value.mean < smallest.mean)) smallest = value;
  };
  for (const SplitShape& one : everywhere(shape)) {
    for (std::size_t g = 0; g < least.size(); ++g) {
      const OperatorCosts costs = costs_under(tables_, one, false, static_cast<std::int32_t>(g));
      if (missing(costs.forward) || missing(costs.backward)) continue;
      take(costs.forward, least[g].forward);
      take(costs.backward, least[g].backward);
    }
  }
  return least;
}

}  // namespace trimtab::tuner
