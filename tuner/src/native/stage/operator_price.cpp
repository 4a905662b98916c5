#include "native/stage/operator_price.hpp"

#include <algorithm>
#include <cmath>

#include "native/costs/operator_traits.hpp"
#include "native/stage/sequence_costs.hpp"
#include "native/stage/stragglers.hpp"

namespace trimtab::tuner {
namespace {

std::int64_t whole(double bytes) {
  return static_cast<std::int64_t>(std::llround(bytes));
}

class Pricing {
 public:
  Pricing(const CostTable::Tables& tables, const SplitPrices& of, SplitCatalog& catalog)
      : tables_(tables), of_(of), catalog_(catalog) {}

  [[nodiscard]] OperatorPrice at(std::int32_t group) {
    const OperatorCosts& costs = of_.table->of_group[group];
    const SplitShape& shape = of_.shape;
    price_.kind = computation_of(tables_.operator_of(group).kind);
    price_.forward = costs.forward.mean;
    price_.backward = costs.backward.mean;
    price_.least_forward = costs.least_forward;
    price_.least_backward = costs.least_backward;
    if (shape.split.dp > 1) {
      price_.forward_variance = costs.forward.spread * costs.forward.spread;
      price_.backward_variance = costs.backward.spread * costs.backward.spread;
    }
    price_.stored = costs.stored.mean;
    price_.working = costs.working.mean;
    price_.forward_reserve = costs.forward_reserve;
    price_.backward_reserve = costs.backward_reserve;
    price_.states = costs.parameters * states_per_byte(tables_, shape);
    price_.output =
        static_cast<double>(tables_.operator_of(group).output_bytes) * shape.samples / shape.output_shares();
    price_.complete = costs.complete() && (shape.split.tp == 1 || shape.tensor.placement == Placement::kIntraNode);
    if (costs.parameters > 0) add_parameters(group, costs.parameters);
    if (shape.split.tp > 1) add_reduces(group);
    return price_;
  }

 private:
  void add_reduces(std::int32_t group) {
    price_.reduces = tensor_all_reduces(tables_.operator_of(group)).value_or(0);
    if (price_.reduces == 0) return;
    std::size_t sums = 0;
    for (const CollectiveUse& use : output_sums(tables_, of_.shape, group)) {
      price_.sums.sums[sums++] = catalog_.slowdowns(use);
      const Value value = tables_.links.collective(use.primitive, use.bytes, use.group_size, use.route);
      price_.reduce_missing = price_.reduce_missing || value.quality == Quality::kMissing;
      price_.reduce += value.mean;
    }
    const SplitShape& shape = of_.shape;
    const Route& of_replicas = shape.sharded() ? shape.shards : shape.replicas;
    if (shape.replica_ranks() < 2 || shape.tensor.placement != of_replicas.placement) return;
    price_.on_link = std::min(price_.forward_reducing(), price_.backward_reducing());
  }

  void add_parameters(std::int32_t group, double parameters) {
    const SplitShape& shape = of_.shape;
    const Value optimizer = tables_.optimizer_of_group[group];
    price_.complete = price_.complete && optimizer.quality != Quality::kMissing;
    const double whole_parameters = static_cast<double>(tables_.operator_of(group).parameter_bytes);
    const double share = whole_parameters > 0 ? parameters / whole_parameters : 1;
    price_.optimizer = optimizer.mean * share / (shape.sharded() ? shape.shard_ranks() : 1);
    if (shape.replica_ranks() < 2) return;
    price_.gradient_buffer = parameters * tables_.gradient_factor;
    if (shape.split.sharded == ShardedLevel::kParameters) price_.gathered = parameters;
    price_.whole = parameters * whole_per_byte(tables_, shape);
    if (tables_.passes_only) return;
    const CollectiveUses uses = collective_uses(tables_, shape, parameters);
    price_.gather = cost(uses.gather);
    price_.scatter = cost(uses.scatter);
    price_.last = cost(uses.last);
    price_.copies = cost(uses.last_copies);
    price_.last += price_.copies;
    price_.after = cost(uses.after);
    price_.gather_beside = catalog_.slowdowns(uses.gather);
    price_.scatter_beside = catalog_.slowdowns(uses.scatter);
    price_.last_beside = catalog_.slowdowns(uses.last);
    price_.copies_beside = catalog_.slowdowns(uses.last_copies);
  }

  double cost(const CollectiveUse& use) {
    const Value value = tables_.links.collective(use.primitive, use.bytes, use.group_size, use.route);
    price_.complete = price_.complete && value.quality != Quality::kMissing;
    price_.link_error += value.error;
    return value.mean;
  }

  const CostTable::Tables& tables_;
  const SplitPrices& of_;
  SplitCatalog& catalog_;
  OperatorPrice price_;
};

}  // namespace

double states_per_byte(const CostTable::Tables& tables, const SplitShape& shape) {
  const double degree = shape.sharded() ? shape.shard_ranks() : 1;
  const double gradient = tables.gradient_factor;
  const double optimizer = tables.optimizer_factor;
  switch (shape.split.sharded) {
    case ShardedLevel::kNone:
      break;
    case ShardedLevel::kOptimizer:
      return 1 + gradient + optimizer / degree;
    case ShardedLevel::kGradients:
      return 1 + (gradient + optimizer) / degree;
    case ShardedLevel::kParameters:
      return (1 + gradient + optimizer) / degree;
  }
  return 1 + gradient + optimizer;
}

double whole_per_byte(const CostTable::Tables& tables, const SplitShape& shape) {
  if (shape.split.sharded < ShardedLevel::kGradients || shape.replica_ranks() < 2) return 0;
  const double gathered = shape.split.sharded == ShardedLevel::kParameters ? 1 : 0;
  return (tables.gradient_factor + gathered) * (1 - 1.0 / shape.shard_ranks());
}

CollectiveUses collective_uses(const CostTable::Tables& tables, const SplitShape& shape, double parameter_bytes) {
  CollectiveUses uses;
  const double gradient = parameter_bytes * tables.gradient_factor;
  if (!shape.sharded()) {
    uses.last = {Primitive::kAllReduce, whole(gradient), shape.replica_ranks(), shape.replicas};
    return uses;
  }
  const std::int32_t degree = shape.shard_ranks();
  const CollectiveUse scatter{Primitive::kReduceScatter, whole(gradient), degree, shape.shards};
  const CollectiveUse gather{Primitive::kAllGather, whole(parameter_bytes / degree), degree, shape.shards};
  (shape.split.sharded == ShardedLevel::kOptimizer ? uses.last : uses.scatter) = scatter;
  (shape.split.sharded == ShardedLevel::kParameters ? uses.gather : uses.after) = gather;
  uses.last_copies = {Primitive::kAllReduce, whole(gradient / degree), shape.copies(), shape.replicas};
  return uses;
}

CollectiveUse tensor_use(const CostTable::Tables& tables, const SplitShape& shape, std::int32_t group) {
  const double bytes = static_cast<double>(tables.operator_of(group).output_bytes) * shape.samples;
  return {Primitive::kAllReduce, whole(bytes), shape.split.tp, shape.tensor};
}

const SplitPrices& SplitCatalog::prices(const SplitShape& shape, bool alternate) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const SplitPrices& of) {
    return of.alternate == alternate && of.shape == shape;
  });
  if (found != known_.end()) return *found;
  SplitPrices& of = known_.emplace_back();
  of.shape = shape;
  of.alternate = alternate;
  of.table = &tables_->at(shape.samples, shape.split.tp, alternate);
  if (shape.shares_sequence()) {
    of.sharing = std::make_unique<OperatorTable>();
    of.sharing->samples = shape.samples;
    of.sharing->tp = shape.split.tp;
    for (std::size_t g = 0; g < tables_->group_names.size(); ++g) {
      of.sharing->of_group.push_back(costs_under(*tables_, shape, false, static_cast<std::int32_t>(g)));
    }
    of.table = of.sharing.get();
  }
  for (std::size_t g = 0; g < tables_->group_names.size(); ++g) {
    of.of_group.push_back(Pricing(*tables_, of, *this).at(static_cast<std::int32_t>(g)));
  }
  const bool varies = std::any_of(of.of_group.begin(), of.of_group.end(), [](const OperatorPrice& price) {
    return price.forward_variance + price.backward_variance > 0;
  });
  if (varies && !tables_->passes_only) of.slowest = expected_maximum(shape.split.dp);
  return of;
}

}  // namespace trimtab::tuner
