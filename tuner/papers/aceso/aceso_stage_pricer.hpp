#pragma once

// The aceso model's stages for the partition solver: the fastest uniform split that fits, recompute derived, one
// microbatch size. Stages that repeat along the model (whole layers further on) are priced once. Not thread-safe.

#include <unordered_map>
#include <vector>

#include "papers/aceso/repetition.hpp"
#include "papers/aceso/uniform_stage.hpp"
#include "plan/plan_space.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner::aceso {

class AcesoStagePricer final : public StagePricer {
 public:
  // All must outlive this.
  AcesoStagePricer(const Tables& tables, UniformStages& uniform, const Model& model, const PlanSpace& space,
                   std::int32_t microbatch);

  std::span<const double> times(std::int32_t begin, std::span<const std::int32_t> ends,
                                const StagePlace& place) override;
  CandidateStage stage(std::int32_t begin, std::int32_t end, const StagePlace& place) override;
  // How the stage's operators are split where they are split alike.
  [[nodiscard]] std::int32_t setting_of(const Split& split) const;
  [[nodiscard]] double floor(std::int32_t begin, std::int32_t end, std::int32_t devices) const override;
  [[nodiscard]] bool allows(std::int32_t devices) const override;
  [[nodiscard]] double least_time() const override { return least_time_; }
  [[nodiscard]] double least_device_time() const override { return least_device_time_; }

 private:
  struct Option {
    Split split;
    std::int32_t setting;
    std::vector<double> sums;  // ms of forward and backward before an operator
  };
  struct Row {  // times by length of the stage, from `first` on; negative = not known yet
    std::int32_t first = 0;
    std::vector<double> times;
  };
  struct Best {
    double time;
    const Option* option;
  };

  [[nodiscard]] const std::vector<Option>& options(std::int32_t devices) const;
  [[nodiscard]] Best price(std::int32_t begin, std::int32_t end, std::int32_t devices, const Place& place);
  [[nodiscard]] Place place_of(const StagePlace& place) const;
  static double& at(Row& row, std::int32_t length, std::int32_t margin);

  const Tables& tables_;
  UniformStages& uniform_;
  std::int32_t microbatch_;
  bool blends_;  // operators may be split along their faster dimension
  const Repetition& repetition_;
  std::vector<std::vector<Option>> options_;  // by log2 of devices, fastest over the whole model first
  std::unordered_map<std::uint64_t, Row> rows_;
  std::vector<double> answer_;
  double least_time_ = 0, least_device_time_ = 0;
};

}  // namespace trimtab::tuner::aceso
