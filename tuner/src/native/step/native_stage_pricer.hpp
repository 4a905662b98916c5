#pragma once

// Stages of the native model for the partition solver of `unified`: the time of a stage is what it adds to a steady
// round, its share of what happens once a step included, at the best uniform split and the recompute that fits, or with
// memory switches, which are looked for where the fastest without recomputes, or none fits. What
// the pipeline makes of it is for the simulation to say: times are not exact, floors are. One per search and
// microbatch; not thread-safe.

#include <array>
#include <limits>
#include <map>
#include <vector>

#include "native/step/native_evaluator.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner {

class NativeStagePricer final : public StagePricer {
 public:
  // The evaluator must outlive this.
  NativeStagePricer(NativeEvaluator& evaluator, std::int32_t microbatch);

  std::span<const double> times(std::int32_t begin, std::span<const std::int32_t> ends,
                                const StagePlace& place) override;
  CandidateStage stage(std::int32_t begin, std::int32_t end, const StagePlace& place) override;
  [[nodiscard]] double floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const override;
  [[nodiscard]] bool exact() const override { return false; }
  [[nodiscard]] bool estimates() const override { return true; }
  [[nodiscard]] bool allows(std::int32_t devices) const override { return splits_.count(devices) != 0; }
  // A pipeline's time is not the sum of its rounds and its stages to the last digit: no floor comes from this one.
  [[nodiscard]] double least_time() const override { return 0; }
  [[nodiscard]] double least_device_time() const override { return least_device_time_; }

 private:
  // What a split computes of one microbatch: prefix sums over operators, of a whole step.
  struct Option {
    Split split;
    std::span<const double> sums;
    bool switches = false;  // the split that memory switches have
  };
  struct Switched {
    double time = 0;
    CandidateStage stage;
  };

  void add_splits(std::int32_t devices);
  // The least round time up to `limit`, or infinite; `best` becomes the split's.
  double price(std::int32_t begin, std::int32_t end, const StagePlace& place, const Option& option, double limit);
  // The same with memory switches; infinite where they cannot be priced, or the search is over. Valid until the next
  // call.
  const Switched& switched(std::int32_t begin, std::int32_t end, const StagePlace& place, const Option& option);
  [[nodiscard]] double round_ms(const StagePrice& price) const;

  NativeEvaluator& evaluator_;
  std::int32_t microbatch_;
  double rounds_;
  double least_device_time_ = 0;
  std::map<std::int32_t, std::vector<Option>> splits_;  // by devices
  std::map<std::int32_t, std::vector<double>> floors_;  // by devices: prefix sums of one microbatch
  std::vector<double> times_;
  std::vector<bool> needs_memory_;  // by end: what is fastest recomputes, or nothing fits
  CandidateStage stage_;
  double recompute_ = 0;  // of the stage priced last
  const Switched unpriced_{std::numeric_limits<double>::infinity(), {}};
  std::map<std::array<std::int32_t, 7>, Switched> switched_;  // by what decides of them, the first device's place
};

}  // namespace trimtab::tuner
