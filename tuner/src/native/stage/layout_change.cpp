#include "native/stage/layout_change.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trimtab::tuner {
namespace {

std::int64_t whole(double bytes) {
  return static_cast<std::int64_t>(std::llround(bytes));
}

// The ranks that exchange hold consecutive replicas: where a replica's ranks or all of them share a node, so do these.
CollectiveUse gather_samples(const SplitShape& from, const SplitShape& to, double bytes_per_sample) {
  const std::int32_t group = from.split.dp / to.split.dp;
  const Route& route = to.split.dp == 1 ? from.replicas : to.tensor;
  return {Primitive::kAllGather, whole(bytes_per_sample * from.samples), group, route};
}

}  // namespace

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

}  // namespace trimtab::tuner
