#include "fake_device.hpp"

#include <algorithm>

namespace trimtab::bench {

namespace {

struct FakeWorkload final : Workload {
  explicit FakeWorkload(Chain given) : chain(std::move(given)) {}
  Chain chain;
};

// Both run from one moment on; while both do, each is slowed by its factor.
std::pair<double, double> together(double low, double high, double alpha, double beta) {
  if (low * alpha <= high * beta) {
    const double low_end = low * alpha;
    return {low_end, low_end + (high - low_end / beta)};
  }
  const double high_end = high * beta;
  return {high_end + (low - high_end / alpha), high_end};
}

}  // namespace

FakeDevice::FakeDevice(FakeSettings settings, std::uint64_t seed) : settings_(std::move(settings)), random_(seed) {
  facts_.name = "fake";
  facts_.process_bytes = 300 << 20;
  facts_.cache_bytes = 50 << 20;
  facts_.clocks_known = true;
}

Result<std::unique_ptr<Workload>> FakeDevice::prepare(const Chain& chain) {
  if (prepares++ == settings_.fail_prepare) return unavailable("out of memory");
  prepared.push_back(chain);
  if (touched_bytes(chain) > settings_.memory) return unavailable("the GPU gave no memory");
  return std::unique_ptr<Workload>(std::make_unique<FakeWorkload>(chain));
}

double FakeDevice::length(const Launch& launch) {
  double sum = 0;
  for (const Kernel& kernel : static_cast<FakeWorkload*>(launch.workload)->chain) {
    sum += std::max(settings_.least_ns, static_cast<double>(touched_bytes(kernel)) / settings_.bytes_per_ns);
  }
  return sum * launch.times * std::max(0.2, 1 + settings_.noise * random_.normal());
}

Result<std::vector<Span>> FakeDevice::run(std::span<const Launch> launches) {
  if (runs++ == settings_.fail_run) return unavailable("an illegal address was touched");
  std::int32_t kernels = 0;
  for (const Launch& launch : launches) {
    kernels += (launch.delay_ns > 0 ? 1 : 0) +
               launch.times * static_cast<std::int32_t>(static_cast<FakeWorkload*>(launch.workload)->chain.size());
  }
  most_kernels = std::max(most_kernels, kernels);
  if (launches.size() == 1) return std::vector<Span>{{0, length(launches[0])}};
  if (std::ranges::find(delays, launches[1].delay_ns) == delays.end()) delays.push_back(launches[1].delay_ns);
  const bool ends = settings_.cover_ends(pairs_++);
  const double first = ends ? 1 : length(launches[0]);
  const double second = length(launches[1]);
  const auto delay = static_cast<double>(launches[1].delay_ns);
  if (first <= delay) return std::vector<Span>{{0, first}, {delay, delay + second}};
  const bool first_is_low = launches[0].stream == 0;
  const double left = first - delay;
  const auto [low, high] =
      together(first_is_low ? left : second, first_is_low ? second : left, settings_.alpha, settings_.beta);
  return std::vector<Span>{{0, delay + (first_is_low ? low : high)}, {delay, delay + (first_is_low ? high : low)}};
}

ClockReading FakeDevice::clocks() {
  ClockReading reading;
  reading.sm_mhz = settings_.sm_mhz(readings++);
  reading.power_milliwatts = 400'000;
  return reading;
}

std::string sample_model() {
  return R"({"schema": "trimtab.model/1", "name": "toy", "dtype": "float16", "operators": [
    {"name": "e", "kind": "embedding", "cost_key": "embedding", "parameter_bytes": 8192,
     "shape": {"sequence": 128, "hidden": 256, "heads": 4, "vocabulary": 1024}, "forward_flops": 0},
    {"name": "a", "kind": "attention", "cost_key": "attention", "parameter_bytes": 524288,
     "shape": {"sequence": 128, "hidden": 256, "heads": 4, "vocabulary": 1024}, "forward_flops": 83886080},
    {"name": "f", "kind": "feedforward", "cost_key": "feedforward", "parameter_bytes": 1048576,
     "shape": {"sequence": 128, "hidden": 256, "heads": 4, "vocabulary": 1024}, "forward_flops": 134217728},
    {"name": "h", "kind": "head", "cost_key": "head", "parameter_bytes": 524288,
     "shape": {"sequence": 128, "hidden": 256, "heads": 4, "vocabulary": 1024}, "forward_flops": 67108864},
    {"name": "m", "kind": "mixture", "cost_key": "mixture", "parameter_bytes": 0, "shape": {}, "forward_flops": 1}]})";
}

}  // namespace trimtab::bench
