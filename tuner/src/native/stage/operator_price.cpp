#include "native/stage/operator_price.hpp"

#include "native/costs/operator_traits.hpp"
#include "native/stage/sequence_costs.hpp"
#include "native/stage/stragglers.hpp"
#include "plan/recompute_flags.hpp"

namespace trimtab::tuner {
namespace {

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
    if (!tables_.launches.empty()) {
      price_.launches =
          tables_.launches.at(tables_.group_names[group], shape.samples, shape.split.tp, of_.alternate, price_.reduces);
      if (tables_.passes_only) price_.launches.update = 0;
    }
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

// The ranks that exchange hold consecutive replicas: where a replica's ranks or all of them share a node, so do these.
CollectiveUse gather_samples(const SplitShape& from, const SplitShape& to, double bytes_per_sample) {
  const std::int32_t group = from.split.dp / to.split.dp;
  const Route& route = to.split.dp == 1 ? from.replicas : to.tensor;
  return {Primitive::kAllGather, whole(bytes_per_sample * from.samples), group, route};
}

double parameters_of(const CostTable::Tables& tables, const StageShape& shape, const SplitShape& split,
                     std::int32_t op) {
  return tables.at(split.samples, split.split.tp, contains(shape.alternate, op))
      .of_group[tables.group_of[op]]
      .parameters;
}

void put_buckets(const CostTable::Tables& tables, const StageShape& shape, const SegmentShape& segment,
                 std::vector<GradientBucket>& buckets) {
  GradientBucket open{{0, 0}, 0, &segment.split};
  for (std::int32_t op = segment.operators.end; op-- > segment.operators.begin;) {
    const double parameters = parameters_of(tables, shape, segment.split, op);
    if (parameters <= 0) continue;
    if (open.parameters <= 0) open.operators.end = op + 1;
    open.operators.begin = op;
    open.parameters += parameters;
    if (open.parameters < shape.bucket_bytes) continue;
    buckets.push_back(open);
    open.parameters = 0;
  }
  if (open.parameters > 0) buckets.push_back(open);
}

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
  const auto found = std::ranges::find_if(
      known_, [&](const SplitPrices& of) { return of.alternate == alternate && of.shape == shape; });
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
  const bool varies = std::ranges::any_of(
      of.of_group, [](const OperatorPrice& price) { return price.forward_variance + price.backward_variance > 0; });
  if (varies && !tables_->passes_only) of.slowest = expected_maximum(shape.split.dp);
  return of;
}

LayoutChange layout_change(const SplitShape& before, bool before_alternate, const SplitShape& after,
                           bool after_alternate, double bytes_per_sample) {
  LayoutChange change;
  const std::int32_t dp_before = before.split.dp;
  const std::int32_t dp_after = after.split.dp;
  if (dp_before != dp_after && dp_before % dp_after == 0) {
    change.forward = gather_samples(before, after, bytes_per_sample);
  } else if (dp_before != dp_after && dp_after % dp_before == 0) {
    change.backward = gather_samples(after, before, bytes_per_sample);
  } else if (dp_before != dp_after) {
    const std::int32_t ranks = dp_before * before.split.tp;
    const Route route = worse(before.replicas, after.replicas);
    change.forward = {Primitive::kAllToAll, whole(bytes_per_sample * before.samples), ranks, route};
    change.backward = {Primitive::kAllToAll, whole(bytes_per_sample * after.samples), ranks, route};
  } else if (before_alternate != after_alternate && before.split.tp > 1) {
    change.backward = {Primitive::kAllGather, whole(bytes_per_sample * before.samples / before.split.tp),
                       before.split.tp, before.tensor};
  }
  return change;
}

double change_ms(const LinkCosts& links, const LayoutChange& change) {
  double ms = 0;
  for (const CollectiveUse& use : {change.forward, change.backward}) {
    const Value value = links.collective(use.primitive, use.bytes, use.group_size, use.route);
    ms += value.quality == Quality::kMissing ? std::numeric_limits<double>::infinity() : value.mean;
  }
  return ms;
}

std::vector<GradientBucket> gradient_buckets(const CostTable::Tables& tables, const StageShape& shape) {
  std::vector<GradientBucket> buckets;
  if (shape.bucket_bytes <= 0 || tables.passes_only) return buckets;
  for (auto segment = shape.segments.rbegin(); segment != shape.segments.rend(); ++segment) {
    if (segment->split.replica_ranks() > 1) put_buckets(tables, shape, *segment, buckets);
  }
  return buckets;
}

void price_buckets(const CostTable::Tables& tables, const StageShape& shape, SplitCatalog& catalog,
                   BucketPrices& prices) {
  prices = {};
  const std::vector<GradientBucket> buckets = gradient_buckets(tables, shape);
  if (buckets.empty()) return;
  const auto cost = [&](const CollectiveUse& use) {
    const Value value = tables.links.collective(use.primitive, use.bytes, use.group_size, use.route);
    prices.complete = prices.complete && value.quality != Quality::kMissing;
    prices.mean += value.mean;
    prices.error += value.error;
    return value.mean;
  };
  const auto operators = static_cast<std::size_t>(shape.operators.size());
  for (std::vector<double>* const by_place : {&prices.scatter, &prices.last, &prices.copies, &prices.after}) {
    by_place->assign(operators, 0);
  }
  for (auto* const by_place :
       {&prices.scatter_beside, &prices.last_beside, &prices.copies_beside, &prices.after_beside}) {
    by_place->assign(operators, &kNoSlowdowns);
  }
  for (const GradientBucket& bucket : buckets) {
    const CollectiveUses uses = collective_uses(tables, *bucket.split, bucket.parameters);
    const auto place = static_cast<std::size_t>(bucket.operators.begin - shape.operators.begin);
    prices.scatter[place] = cost(uses.scatter);
    prices.last[place] = cost(uses.last);
    prices.copies[place] = cost(uses.last_copies);
    prices.last[place] += prices.copies[place];
    prices.after[place] = cost(uses.after);
    prices.scatter_beside[place] = catalog.slowdowns(uses.scatter);
    prices.last_beside[place] = catalog.slowdowns(uses.last);
    prices.copies_beside[place] = catalog.slowdowns(uses.last_copies);
    prices.after_beside[place] = catalog.slowdowns(uses.after);
    prices.gradient_buffer = std::max(prices.gradient_buffer, bucket.parameters * tables.gradient_factor);
  }
}

}  // namespace trimtab::tuner
