#pragma once

// AutoPipe's performance model (Liu et al., CLUSTER 2022, section III-B): a 1F1B step by recurrences over stages and
// microbatches, complete where the paper's are not (tuner/src/solvers/autopipe/recurrences.hpp). Stages, transfers and
// memory are the native model's measured costs; gradient synchronization, the reduction of tied parameters and the
// optimizer step are left out, as the paper leaves them. Slicing: two halves of a microbatch take as long as the whole.
// The variant says how transfers are, whatever the plan's schedule.transfers: `eager`, begun when the producer ends and
// blocking nobody, or `blocking`, Megatron's exchanges, where sender and receiver meet. Immutable; any thread.

#include <memory>
#include <vector>

#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

class AutopipeCostModel final : public CostModel {
 public:
  // A table of passes alone (CostTableOptions) misses no cost that this model does not price.
  AutopipeCostModel(CostTable table, Transfers transfers);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override;
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const override;
  [[nodiscard]] StepPath step_path(const Plan& plan) const override;
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override;
  [[nodiscard]] const Model& model() const override { return native_.model(); }
  [[nodiscard]] const Cluster& cluster() const override { return native_.cluster(); }
  [[nodiscard]] std::unique_ptr<CostModel> on(const Cluster& cluster) const override;
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const override;

  [[nodiscard]] Transfers transfers() const { return transfers_; }
  // The stages' costs.
  [[nodiscard]] const NativeCostModel& native() const { return native_; }

 private:
  NativeCostModel native_;
  Transfers transfers_;
};

}  // namespace trimtab::tuner
