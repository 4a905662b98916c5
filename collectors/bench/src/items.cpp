#include "items.hpp"

#include "base/text_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

namespace trimtab::bench {

namespace {

constexpr double kShortestNs = 100'000;  // Shorter work is launched several times: an event is exact to about 1 µs.
constexpr std::int32_t kMostTimes = 64;
constexpr double kMillion = 1e6;

// The time of one launch, as repeated measurements of several in a row.
Result<std::vector<double>> time_chain(const Chain& chain, Bench& bench) {
  if (chain.size() > static_cast<std::size_t>(Device::kMaxKernelsPerRun)) {
    return bad_input("a chain of " + std::to_string(chain.size()) + " kernels is too long for one run");
  }
  TRIMTAB_TRY(const std::unique_ptr<Workload> workload, bench.device.prepare(chain));
  std::int32_t times = 1;
  const auto once = [&]() -> Result<Measurement> {
    const std::array launches{Launch{workload.get(), 0, times}};
    TRIMTAB_TRY(const auto spans, bench.device.run(launches));
    if (spans.front().length_ns() <= 0) return unavailable("the device gave a span of no length");
    return Measurement{spans.front().length_ns() / times};
  };
  TRIMTAB_TRY([[maybe_unused]] const Measurement warm_up, once());
  TRIMTAB_TRY(const Measurement first, once());
  const auto most = Device::kMaxKernelsPerRun / static_cast<std::int32_t>(chain.size());
  TRIMTAB_TRY(const auto agreed, bench.ranks.largest(std::llround(std::ceil(kShortestNs / first.front()))));
  times = static_cast<std::int32_t>(std::clamp<std::int64_t>(agreed, 1, std::min(kMostTimes, most)));
  TRIMTAB_TRY(Repeated repeated, repeat(once, bench.precision, bench.device, bench.ranks));
  return std::move(repeated.columns.front());
}

Result<const ModelOperator*> find_operator(const Json& item, const Bench& bench) {
  TRIMTAB_TRY(const std::string cost_key, text(item, "cost_key"));
  const auto found = bench.model.by_cost_key.find(cost_key);
  if (found != bench.model.by_cost_key.end()) return &found->second;
  const std::string known = joined(bench.model.by_cost_key, ", ", [](const auto& one) { return one.first; });
  return bad_input("no operator has cost_key " + json_string(cost_key) + "; there are " + known);
}

struct OperatorItem {
  const ModelOperator* op = nullptr;
  Dtype dtype = Dtype::kFloat32;
  std::int64_t samples = 1;
  std::int64_t tp = 1;
  OperatorKernels kernels;

  [[nodiscard]] CostName name(std::string kind) const {
    return {std::move(kind), op->cost_key, std::string(to_string(dtype)), samples, tp, 0, 0, "", "", 0};
  }
};

Result<OperatorItem> read_operator_item(const Json& item, const Bench& bench) {
  OperatorItem asked;
  TRIMTAB_TRY(asked.op, find_operator(item, bench));
  TRIMTAB_TRY(const std::string dtype, text_or(item, "dtype", bench.model.dtype));
  TRIMTAB_TRY(asked.dtype, parse_dtype(dtype));
  TRIMTAB_TRY(asked.samples, positive(item, "samples"));
  TRIMTAB_TRY(asked.tp, positive_or(item, "tp", 1));
  TRIMTAB_TRY(const std::string sharding, text_or(item, "sharding", "default"));
  if (sharding != "default") return bad_input("sharding must be default: no other split of operators is known here");
  TRIMTAB_TRY(asked.kernels, operator_kernels(*asked.op, asked.dtype, asked.samples, asked.tp));
  return asked;
}

Status can_collect(std::int64_t group_size, const Ranks& ranks) {
  const std::string why = ranks.no_collectives();
  if (!why.empty()) return unavailable(why);
  if (group_size >= 2 && group_size <= ranks.size()) return {};
  return bad_input("group_size must lie in [2, " + std::to_string(ranks.size()) + "], found " +
                   std::to_string(group_size));
}

// Whether this rank is in one of the whole blocks of `group_size` neighbours.
bool in_group(std::int64_t group_size, const Ranks& ranks) {
  return ranks.rank() < ranks.size() / group_size * group_size;
}

Result<std::vector<Measured>> operator_item(const Json& item, Bench& bench) {
  TRIMTAB_TRY(const OperatorItem asked, read_operator_item(item, bench));
  if (asked.tp > 1) TRIMTAB_TRY_STATUS(can_collect(asked.tp, bench.ranks));
  TRIMTAB_TRY(auto forward, time_chain(asked.kernels.forward, bench));
  TRIMTAB_TRY(auto backward, time_chain(asked.kernels.backward, bench));
  std::vector<Measured> costs;
  costs.push_back({asked.name("operator_forward"), std::move(forward)});
  costs.push_back({asked.name("operator_backward"), std::move(backward)});
  costs.push_back({asked.name("operator_stored_bytes"), {static_cast<double>(asked.kernels.stored_bytes)}});
  costs.push_back({asked.name("operator_working_bytes"), {static_cast<double>(asked.kernels.working_bytes)}});
  return costs;
}

// Adam: reads gradient, parameter and both moments, writes the last three.
Result<std::vector<Measured>> optimizer_item(const Json& item, Bench& bench) {
  if (!item.at("placement").null()) {
    return bad_input("placement: the host's optimizer is the job's own; ask its benchmark");
  }
  TRIMTAB_TRY(const ModelOperator* const op, find_operator(item, bench));
  TRIMTAB_TRY(const std::string dtype, text_or(item, "dtype", bench.model.dtype));
  TRIMTAB_TRY(const Dtype parsed, parse_dtype(dtype));
  const std::int64_t parameters = op->parameter_bytes / element_bytes(parsed);
  if (parameters < 1) return bad_input("the operator " + op->cost_key + " has no parameters");
  // In float32 whatever the model's type is: optimizers keep their states so.
  TRIMTAB_TRY(auto values, time_chain({{Elementwise{parameters, 4, 3}, Dtype::kFloat32}}, bench));
  return std::vector<Measured>{{{"optimizer_step", op->cost_key, dtype, 0, 0, 0, 0, "", "", 0}, std::move(values)}};
}

Result<std::vector<Measured>> collective_item(const Json& item, Bench& bench) {
  TRIMTAB_TRY(const std::string primitive, text(item, "primitive"));
  TRIMTAB_TRY(const std::int64_t bytes, positive(item, "bytes"));
  TRIMTAB_TRY(const std::int64_t size, positive(item, "group_size"));
  TRIMTAB_TRY_STATUS(can_collect(size, bench.ranks));
  TRIMTAB_TRY(const Chain chain, communication(primitive, bytes, 0, static_cast<std::int32_t>(size), bench.ranks));
  TRIMTAB_TRY(auto values, time_chain(chain, bench));
  if (!in_group(size, bench.ranks)) return std::vector<Measured>{};
  return std::vector<Measured>{
      {{"collective", primitive, "", 0, 0, bytes, size, "intra_node", "", 0}, std::move(values)}};
}

Result<std::vector<Measured>> point_to_point_item(const Json& item, Bench& bench) {
  TRIMTAB_TRY(const std::int64_t bytes, positive(item, "bytes"));
  TRIMTAB_TRY_STATUS(can_collect(2, bench.ranks));
  TRIMTAB_TRY(auto values, time_chain({{Collective{"send_recv", bytes, 2}, Dtype::kFloat32}}, bench));
  if (!in_group(2, bench.ranks)) return std::vector<Measured>{};
  return std::vector<Measured>{
      {{"point_to_point", "send_recv", "", 0, 0, bytes, 0, "intra_node", "", 0}, std::move(values)}};
}

Result<std::vector<Measured>> copy_item(const Json& item, Bench& bench) {
  TRIMTAB_TRY(const std::string direction, text(item, "direction"));
  TRIMTAB_TRY(const std::int64_t bytes, positive(item, "bytes"));
  if (direction != "host_to_device" && direction != "device_to_host") {
    return bad_input("direction must be host_to_device or device_to_host, found " + json_string(direction));
  }
  TRIMTAB_TRY(const Chain chain, communication(direction, bytes, 0, 0, bench.ranks));
  TRIMTAB_TRY(auto values, time_chain(chain, bench));
  return std::vector<Measured>{
      {{"point_to_point", direction, "", 0, 0, bytes, 0, "intra_node", "", 0}, std::move(values)}};
}

Result<std::vector<Measured>> overlap_item(const Json& item, Bench& bench) {
  OverlapCase one;
  TRIMTAB_TRY(one.primitive, text(item, "primitive"));
  TRIMTAB_TRY(one.bytes, positive(item, "bytes"));
  TRIMTAB_TRY(one.kernel_class, text_or(item, "kernel_class", ""));
  TRIMTAB_TRY(const std::int64_t channels, positive_or(item, "channels", 1));
  one.channels = item.at("channels").null() ? 0 : static_cast<std::int32_t>(std::min<std::int64_t>(channels, 1024));
  TRIMTAB_TRY(const std::int64_t size, positive_or(item, "group_size", 1));
  one.group_size = item.at("group_size").null() ? 0 : static_cast<std::int32_t>(std::min<std::int64_t>(size, 1 << 20));
  TRIMTAB_TRY(OperatorItem beside, read_operator_item(item, bench));
  if (beside.tp != 1) return bad_input("overlap is measured beside an operator at tp 1");
  TRIMTAB_TRY(one.communication, communication(one.primitive, one.bytes, one.channels, one.group_size, bench.ranks));
  if (one.kernel_class.empty()) {
    one.computation = std::move(beside.kernels.forward);
    std::ranges::copy(beside.kernels.backward, std::back_inserter(one.computation));
  } else {
    TRIMTAB_TRY(one.computation, kernels_of_class(beside.kernels.forward, one.kernel_class));
  }
  TRIMTAB_TRY(const OverlapResult result, measure_overlap(one, bench.overlap, bench.device, bench.ranks, bench.random));
  return overlap_costs(one, result);
}

Result<std::vector<Measured>> process_item(const Json&, Bench& bench) {
  if (bench.device.facts().process_bytes <= 0) {
    return unavailable(
        "the device's memory in use could not be read before the context was made (no NVML), so what the "
        "context takes is not known");
  }
  return std::vector<Measured>{{{"process_bytes", "process", "", 0, 0, 0, 0, "", "", 0},
                                {static_cast<double>(bench.device.facts().process_bytes)}}};
}

struct ItemKind {
  std::string_view name;
  Result<std::vector<Measured>> (*measure)(const Json&, Bench&);
};
constexpr std::array<ItemKind, 7> kKinds{{{"operator", operator_item},
                                          {"optimizer", optimizer_item},
                                          {"collective", collective_item},
                                          {"point_to_point", point_to_point_item},
                                          {"copy", copy_item},
                                          {"overlap", overlap_item},
                                          {"process", process_item}}};

std::vector<double> slowdowns(const std::vector<double>& ratios) {
  std::vector<double> ppm;
  for (const double ratio : ratios) ppm.push_back(std::max(kMillion, ratio * kMillion));
  return ppm;
}

constexpr std::array<std::string_view, 5> kCollectives{"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                       "send_recv"};

}  // namespace

Result<Chain> communication(std::string_view primitive, Bytes bytes, std::int32_t channels, std::int32_t group_size,
                            const Ranks& ranks) {
  for (const auto direction : {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost}) {
    if (primitive == to_string(direction)) return Chain{{HostCopy{direction, bytes}, Dtype::kFloat32}};
  }
  for (const auto pace : {Pace::kMemory, Pace::kLink, Pace::kSpin}) {
    if (primitive != "channel_" + std::string(to_string(pace))) continue;
    if (channels < 1) return bad_input("channels must be a whole number of 1 or more for " + std::string(primitive));
    return Chain{{ChannelKernel{channels, pace, bytes}, Dtype::kFloat32}};
  }
  if (std::ranges::find(kCollectives, primitive) == kCollectives.end()) {
    return bad_input(
        "primitive must be all_reduce, all_gather, reduce_scatter, broadcast, channel_memory, "
        "channel_link, channel_spin, host_to_device or device_to_host, found " +
        json_string(primitive));
  }
  TRIMTAB_TRY_STATUS(can_collect(group_size, ranks));
  return Chain{{Collective{std::string(primitive), bytes, group_size}, Dtype::kFloat32}};
}

std::vector<Measured> overlap_costs(const OverlapCase& one, const OverlapResult& result) {
  const auto cost = [&](std::string kind, const std::vector<double>& ratios) {
    return Measured{{std::move(kind), one.primitive, "", 0, 0, one.bytes, one.group_size, "intra_node",
                     one.kernel_class, one.channels},
                    slowdowns(ratios)};
  };
  return {cost("overlap_computation", result.computation_ratios),
          cost("overlap_communication", result.communication_ratios)};
}

Result<std::vector<Measured>> measure_item(const Json& item, Bench& bench) {
  TRIMTAB_TRY(const std::string kind, text(item, "kind"));
  std::string known;
  for (const ItemKind& candidate : kKinds) {
    if (candidate.name == kind) return candidate.measure(item, bench);
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  return bad_input("kind must be one of " + known + ", found " + json_string(kind));
}

void answer(const Requests& requests, Bench& bench, const std::function<void(const std::string&)>& print) {
  for (std::size_t number = 0; number < requests.items.size(); ++number) {
    const auto costs = measure_item(requests.items[number], bench);
    if (!costs.ok()) {
      print(error_line(number, costs.error().message));
      continue;
    }
    for (const Measured& cost : *costs) print(cost_line(number, cost));
    print(done_line(number));
  }
}

}  // namespace trimtab::bench
