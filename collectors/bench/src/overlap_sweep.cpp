#include "overlap_sweep.hpp"

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"

namespace trimtab::bench {

namespace {

struct ClassChain {
  std::string kernel_class;
  Chain chain;
};

// One chain for each class that the model has; heavier operators first.
std::vector<ClassChain> class_chains(const SweepRequest& request, const ModelOperators& model) {
  std::vector<const ModelOperator*> operators;
  for (const auto& [key, op] : model.by_cost_key) operators.push_back(&op);
  std::ranges::stable_sort(operators, std::greater<>(), &ModelOperator::forward_flops);
  std::vector<ClassChain> chains;
  for (const std::string& kernel_class : request.classes) {
    for (const ModelOperator* const op : operators) {
      const auto kernels = operator_kernels(*op, request.dtype, request.samples, 1);
      if (!kernels.ok()) continue;
      const auto chain = kernels_of_class(kernels->forward, kernel_class);
      if (!chain.ok()) continue;
      chains.push_back({kernel_class, *chain});
      break;
    }
  }
  return chains;
}

std::string estimate_json(const Estimate& estimate) {
  return "[" + format_fixed(estimate.value, 4) + ", " + format_fixed(estimate.low, 4) + ", " +
         format_fixed(estimate.high, 4) + "]";
}

std::string line_of(const SweepRow& row) {
  const OverlapCase& one = row.one;
  JsonObject line;
  line.add("kernel_class", one.kernel_class).add("primitive", one.primitive).add("channels", one.channels);
  line.add("bytes", one.bytes);
  if (!row.result.ok()) {
    return JsonObject().raw("overlap", line.add("error", row.result.error().message).text()).text();
  }
  const OverlapResult& result = *row.result;
  line.raw("alpha", estimate_json(result.computation)).raw("beta", estimate_json(result.communication));
  line.raw("noise", estimate_json(result.noise)).add("repetitions", result.computation_ratios.size());
  line.add("early_covers", result.discarded_covers).add("off_clock", result.conditions.dropped);
  line.add("sm_mhz", result.conditions.median_sm_mhz).add("milliwatts", result.conditions.median_power_milliwatts);
  line.add("throttle_reasons", result.conditions.throttle_reasons);
  line.raw("computation_ns", format_fixed(result.computation_alone_ns, 0));
  line.raw("communication_ns", format_fixed(result.communication_alone_ns, 0));
  return JsonObject().raw("overlap", line.text()).text();
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string interval(const Estimate& estimate) {
  return format_fixed(estimate.value, 3) + " [" + format_fixed(estimate.low, 3) + ", " +
         format_fixed(estimate.high, 3) + "]";
}

std::string table_row(const SweepRow& row) {
  std::string text = padded(row.one.kernel_class, 13) + padded(row.one.primitive, 16) +
                     padded(row.one.channels == 0 ? "-" : std::to_string(row.one.channels), 9);
  if (!row.result.ok()) return text + row.result.error().message + "\n";
  const OverlapResult& result = *row.result;
  return text + padded(interval(result.computation), 23) + padded(interval(result.communication), 23) +
         padded(interval(result.noise), 23) + std::to_string(result.computation_ratios.size()) + "\n";
}

}  // namespace

Result<std::vector<OverlapCase>> sweep_cases(const SweepRequest& request, const ModelOperators& model,
                                             const Ranks& ranks) {
  std::vector<OverlapCase> cases;
  const auto add = [&](const ClassChain& computation, const std::string& primitive, Bytes bytes,
                       std::int32_t channels) -> Status {
    OverlapCase one{computation.kernel_class, primitive, bytes, channels, 0, computation.chain, {}};
    TRIMTAB_TRY(one.communication, communication(primitive, bytes, channels, 0, ranks));
    cases.push_back(std::move(one));
    return {};
  };
  for (const ClassChain& computation : class_chains(request, model)) {
    for (const std::string primitive : {"channel_memory", "channel_link", "channel_spin"}) {
      for (const std::int32_t channels : request.channels) {
        TRIMTAB_TRY_STATUS(add(computation, primitive, request.bytes_per_channel * channels, channels));
      }
    }
    for (const std::string primitive : {"host_to_device", "device_to_host"}) {
      TRIMTAB_TRY_STATUS(add(computation, primitive, request.copy_bytes, 0));
    }
  }
  if (cases.empty()) return bad_input("the model has no operator with kernels of the classes asked for");
  return cases;
}

std::vector<SweepRow> run_sweep(std::vector<OverlapCase> cases, Bench& bench,
                                const std::function<void(const std::string&)>& print) {
  std::vector<SweepRow> rows;
  for (OverlapCase& one : cases) {
    auto result = measure_overlap(one, bench.overlap, bench.device, bench.ranks, bench.random);
    if (result.ok()) {
      for (const Measured& cost : overlap_costs(one, *result)) print(cost_line(0, cost));
    }
    rows.push_back({std::move(one), std::move(result)});
    print(line_of(rows.back()));
  }
  return rows;
}

std::string sweep_table(const std::vector<SweepRow>& rows, const DeviceFacts& device) {
  std::string text = "Slowdown while both run, on " + device.name +
                     ": median of paired ratios [95 % bootstrap interval]; noise = the computation alone, twice\n" +
                     padded("computation", 13) + padded("beside", 16) + padded("channels", 9) +
                     padded("computation's", 23) + padded("communication's", 23) + padded("noise", 23) + "pairs\n";
  for (const SweepRow& row : rows) text += table_row(row);
  if (!device.clocks_known) text += "The driver does not say the clock: no repetition could be left out for it.\n";
  return text +
         "Not measured: NVLink, NVLS and waiting for other ranks. channel_* are thread blocks with NCCL's footprint "
         "that\n"
         "copy inside the device as fast as memory gives, at " +
         format_number(static_cast<double>(kLinkBytesPerSecond) / 1e9) +
         " GB/s a channel (link), or not at all (spin).\n";
}

}  // namespace trimtab::bench
