#pragma once

// Stragglers: replicas that synchronize wait for the slowest of them. What one waits on average is the expected maximum
// over the replicas' times less their mean; each replica's time is taken to be normal, a sum of many passes, with the
// variance of its costs. What one microbatch takes more than another is independent and averages out until the next
// synchronization; a device's own slowness (CostTableOptions::device_share) is the same in every operator and does not.
// Tensor-parallel ranks wait for each other inside of measured times. Pure.

#include "pricing/evaluator.hpp"
#include "solvers/pipeline.hpp"

namespace trimtab::tuner {

// The expected maximum of n independent standard normal values: exact to 6 digits at 1 to 8, within 0.2 % else.
// REQUIRES: n >= 1.
[[nodiscard]] double expected_maximum(std::int32_t n);

// Independent or not, as device_share says.
class SpreadSum {
 public:
  explicit SpreadSum(double device_share) : device_share_(device_share) {}
  void add(double variance);
  void add(const SpreadSum& other);
  // ms; `slowest` in standard deviations.
  [[nodiscard]] double wait(double slowest) const;
  [[nodiscard]] ReplicaSpread times(double factor, double slowest) const;

 private:
  double device_share_;
  double variance_ = 0;
  double deviations_ = 0;  // sum of standard deviations: a slow device is slow in all of it
};

// Where replicas synchronize once a step. The replicas of a stage arrive as far apart as their way through the step
// makes them: once through every stage and, for all other microbatches, through the busiest. Adds what they wait to the
// stages' tails; of stages that share devices, to the one that ends last. `waits` gets the same, by stage; may be null.
void add_step_waits(std::span<PipelineStage> pipeline, std::span<const ReplicaSpread> spreads, std::int32_t seats,
                    std::int32_t microbatches, double* waits);

}  // namespace trimtab::tuner
