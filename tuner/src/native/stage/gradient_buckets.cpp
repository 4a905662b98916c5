#include "native/stage/gradient_buckets.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

double parameters_of(const CostTable::Tables& tables, const StageShape& shape, const SplitShape& split,
                     std::int32_t op) {
  const bool alternate = std::any_of(shape.alternate.begin(), shape.alternate.end(),
                                     [op](const Range& range) { return range.contains(op); });
  return tables.at(split.samples, split.split.tp, alternate).of_group[tables.group_of[op]].parameters;
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
