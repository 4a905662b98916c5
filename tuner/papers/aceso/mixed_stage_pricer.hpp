#pragma once

// Stages of mixed splits for the partition solver, one microbatch size: either the fastest that is known to fit, or a
// floor under every way to run the stage (with any recompute). Not thread-safe.

#include <memory>
#include <unordered_map>
#include <vector>

#include "papers/aceso/aceso_stage_pricer.hpp"
#include "papers/aceso/mixed_stage.hpp"
#include "papers/aceso/split_paths.hpp"

namespace trimtab::tuner::aceso {

class MixedStagePricer final : public StagePricer {
 public:
  enum class Mode : std::uint8_t { kTimes, kFloors };

  // All must outlive this.
  MixedStagePricer(const Tables& tables, UniformStages& uniform, const Model& model, const PlanSpace& space,
                   std::int32_t microbatch, Mode mode);

  std::span<const double> times(std::int32_t begin, std::span<const std::int32_t> ends,
                                const StagePlace& place) override;
  // Least: uniform splits alone, with the published rule's recompute.
  void use(Effort effort) override;
  CandidateStage stage(std::int32_t begin, std::int32_t end, const StagePlace& place) override;
  [[nodiscard]] double floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const override;
  [[nodiscard]] bool allows(std::int32_t devices) const override;
  [[nodiscard]] double least_time() const override { return least_time_; }
  [[nodiscard]] double least_device_time() const override { return least_device_time_; }
  [[nodiscard]] bool exact() const override { return false; }

 private:
  [[nodiscard]] MixedStages& stages_of(std::int32_t devices) const;
  [[nodiscard]] std::int32_t canonical(std::int32_t begin, std::int32_t end) const;
  [[nodiscard]] double price(std::int32_t begin, std::int32_t end, std::int32_t devices, const Place& place);
  [[nodiscard]] Place place_of(const StagePlace& place) const;

  // The same stage of one split by the published rule, spelled out.
  CandidateStage uniform_stage(std::int32_t begin, std::int32_t end, const StagePlace& place);

  const Tables& tables_;
  UniformStages& uniform_stages_;
  AcesoStagePricer uniform_;
  bool derived_recompute_;
  Mode mode_;
  bool uniform_alone_ = false;
  const Repetition& repetition_;
  std::vector<std::unique_ptr<MixedStages>> stages_;  // by log2 of devices
  std::vector<std::unique_ptr<SplitPaths>> paths_;    // the same, where the published rule says what is recomputed
  std::vector<double> answer_;
  double least_time_ = 0, least_device_time_ = 0;
};

}  // namespace trimtab::tuner::aceso
