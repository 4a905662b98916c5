#include "native/stage/transfer.hpp"

namespace trimtab::tuner {

Value transfer_time(const CostTable::Tables& tables, const std::vector<std::int32_t>& node_of, const TransferSide& from,
                    const TransferSide& to, double bytes_per_sample, std::int32_t microbatch) {
  const double fan_out = std::max(1, (to.tp + from.tp - 1) / from.tp);
  Value slowest{0, 0, Quality::kMeasured};
  Value sending;
  Value receiving;
  const auto add = [&slowest](Value& sum, const Value& cost, double times) {
    sum.mean += cost.mean * times;
    sum.error += cost.error * times;
    if (sum.mean > slowest.mean) slowest = {sum.mean, sum.error, slowest.quality};
  };
  Value cost;
  std::int32_t cost_samples = -1;
  std::int32_t cost_from = -1;
  std::int32_t cost_to = -1;
  for_each_message(from.dp, to.dp, microbatch, [&](const Message& message) {
    if (message.first_of_sender) sending = {};
    if (message.first_of_receiver) receiving = {};
    const std::int32_t from_node = node_of[from.first_device(message.from)];
    const std::int32_t to_node = node_of[to.first_device(message.to)];
    if (message.samples != cost_samples || from_node != cost_from || to_node != cost_to) {
      cost_samples = message.samples;
      cost_from = from_node;
      cost_to = to_node;
      cost =
          tables.links.point_to_point(static_cast<std::int64_t>(bytes_per_sample * cost_samples), from_node, to_node);
    }
    slowest.quality = std::max(slowest.quality, cost.quality);
    add(sending, cost, fan_out);
    add(receiving, cost, 1);
  });
  return slowest;
}

void tied_members(const TiedParameters& tied, const std::vector<TiedStage>& stages,
                  std::vector<std::int32_t>& members) {
  const auto first = static_cast<std::ptrdiff_t>(members.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::int32_t begin = s == 0 ? 0 : stages[s - 1].end;
    const bool holds =
        std::ranges::any_of(tied.operators, [&](std::int32_t i) { return begin <= i && i < stages[s].end; });
    if (holds) members.push_back(static_cast<std::int32_t>(s));
  }
  if (static_cast<std::ptrdiff_t>(members.size()) - first < 2) members.resize(static_cast<std::size_t>(first));
}

CollectiveUse tied_use(const CostTable::Tables& tables, const TiedParameters& tied,
                       const std::vector<TiedStage>& stages, const std::vector<std::int32_t>& members,
                       std::size_t first_member) {
  CollectiveUse use;
  use.group_size = static_cast<std::int32_t>(members.size() - first_member);
  if (use.group_size < 2) return use;
  const TiedStage& first = stages[members[first_member]];
  use.bytes = whole(static_cast<double>(tied.bytes) * tables.gradient_factor / first.tp);
  const Routes& routes = tables.links.routes();
  use.route = routes.between(first.node, first.node);
  for (std::size_t m = first_member; m < members.size(); ++m) {
    for (std::size_t before = first_member; before < m; ++before) {
      const Route route = routes.between(stages[members[before]].node, stages[members[m]].node);
      use.route = worse(use.route, route);
    }
  }
  return use;
}

Quality tied_reductions(const CostTable::Tables& tables, const Calibration& calibration,
                        const std::vector<TiedStage>& stages, TiedReductions& ties) {
  Quality worst = Quality::kMeasured;
  ties.clear();
  for (const TiedParameters& tied : tables.model.tied_parameters) {
    const std::size_t first = ties.members.size();
    tied_members(tied, stages, ties.members);
    const CollectiveUse use = tied_use(tables, tied, stages, ties.members, first);
    if (use.group_size < 2) continue;
    const Value value = tables.links.collective(use.primitive, use.bytes, use.group_size, use.route);
    worst = std::max(worst, value.quality);
    ties.reductions.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(ties.members.size()),
                               value.mean * calibration.moving(CommunicationClass::kGradients)});
  }
  return worst;
}

}  // namespace trimtab::tuner
