#include "native/stage/transfer.hpp"

#include <algorithm>

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

}  // namespace trimtab::tuner
