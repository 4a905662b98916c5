#include "native/stage/stragglers.hpp"

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

struct Maximum {
  std::int32_t n;
  double expected;
};

// The integral of 1 - F^n above 0 less that of F^n below it, F the standard normal distribution.
constexpr std::array kMaxima{
    Maximum{1, 0},           Maximum{2, 0.564190},     Maximum{3, 0.846284},     Maximum{4, 1.029375},
    Maximum{5, 1.162964},    Maximum{6, 1.267206},     Maximum{7, 1.352178},     Maximum{8, 1.423600},
    Maximum{10, 1.538753},   Maximum{12, 1.629228},    Maximum{16, 1.765991},    Maximum{24, 1.947674},
    Maximum{32, 2.069669},   Maximum{64, 2.343733},    Maximum{128, 2.594597},   Maximum{256, 2.826863},
    Maximum{512, 3.043903},  Maximum{1024, 3.248240},  Maximum{2048, 3.441799},  Maximum{4096, 3.626082},
    Maximum{8192, 3.802279}, Maximum{16384, 3.971351}, Maximum{32768, 4.134083}, Maximum{65536, 4.291129}};

double square(double value) {
  return value * value;
}

// Of what a stage's replicas do in `microbatches` of one step.
double variance_of(const ReplicaSpread& spread, double microbatches) {
  return microbatches * spread.variance + square(microbatches * spread.constant);
}

}  // namespace

double expected_maximum(std::int32_t n) {
  TRIMTAB_ASSERT(n >= 1, "a maximum of nothing");
  const auto above = std::find_if(kMaxima.begin() + 1, kMaxima.end() - 1, [n](const Maximum& at) { return at.n >= n; });
  const Maximum& low = *(above - 1);
  // In between, and beyond the table, straight over the logarithm.
  const double share = std::log(static_cast<double>(n) / low.n) / std::log(static_cast<double>(above->n) / low.n);
  return low.expected + share * (above->expected - low.expected);
}

void SpreadSum::add(double variance) {
  variance_ += variance;
  if (device_share_ > 0) deviations_ += std::sqrt(variance);
}

void SpreadSum::add(const SpreadSum& other) {
  variance_ += other.variance_;
  deviations_ += other.deviations_;
}

ReplicaSpread SpreadSum::times(double factor, double slowest) const {
  const double own = 1 - device_share_;
  return {square(factor) * own * variance_, factor * std::sqrt(device_share_) * deviations_, slowest};
}

double SpreadSum::wait(double slowest) const {
  return slowest * std::sqrt(variance_of(times(1, slowest), 1));
}

void add_step_waits(std::span<PipelineStage> pipeline, std::span<const ReplicaSpread> spreads, std::int32_t seats,
                    std::int32_t microbatches, double* waits) {
  const std::size_t stages = pipeline.size();
  if (std::ranges::none_of(spreads, [](const ReplicaSpread& of) { return of.slowest > 0; })) return;
  const auto groups = static_cast<std::size_t>(seats);
  double once = 0;
  double more = 0;
  double busiest = -1;
  for (std::size_t seat = 0; seat < groups; ++seat) {
    ReplicaSpread all;
    double busy = 0;
    for (std::size_t s = seat; s < stages; s += groups) {
      all.variance += spreads[s].variance;
      all.constant += spreads[s].constant;
      busy += pipeline[s].forward + pipeline[s].backward;
    }
    once += variance_of(all, 1);
    if (busy <= busiest) continue;
    busiest = busy;
    more = variance_of(all, microbatches) - variance_of(all, 1);
  }
  const double deviation = std::sqrt(once + more);
  for (std::size_t seat = 0; seat < groups; ++seat) {
    double slowest = 0;
    for (std::size_t s = seat; s < stages; s += groups) slowest = std::max(slowest, spreads[s].slowest);
    pipeline[seat].tail += slowest * deviation;
    if (waits != nullptr) waits[seat] = slowest * deviation;
  }
}

}  // namespace trimtab::tuner
