#pragma once

// Aceso's published performance model (Liu et al., EuroSys 2024, section 3.4, as its code has it): a stage takes its
// operators' measured times, recompute and its transfers; the iteration is (N - 1) times the slowest stage plus all
// stages once; memory as the code counts it. It leaves out gradient synchronization and the optimizer step, and refuses
// plans that set what it does not price. Immutable; any thread.

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

namespace aceso {
class Tables;
struct Profile;
}  // namespace aceso

class AcesoCostModel final : public CostModel {
 public:
  // Fails where the cluster says nothing of memory or no operator of the model was measured.
  [[nodiscard]] static Result<AcesoCostModel> build(const Model& model, const Cluster& cluster,
                                                    const std::vector<Cost>& costs);

  [[nodiscard]] std::string_view name() const override { return "aceso"; }
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override;
  // Every stage as the formulas have it: one microbatch after the other at the slowest stage's pace.
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const override;
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override;
  [[nodiscard]] const Model& model() const override { return *model_; }
  [[nodiscard]] const Cluster& cluster() const override { return *cluster_; }
  // Null where the cluster says nothing of memory.
  [[nodiscard]] std::unique_ptr<CostModel> on(const Cluster& cluster) const override;
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const override;
  [[nodiscard]] const aceso::Tables& tables() const { return *tables_; }

 private:
  AcesoCostModel() = default;
  [[nodiscard]] static Result<AcesoCostModel> build(std::shared_ptr<const Model> model, const Cluster& cluster,
                                                    const aceso::Profile& profile);

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Cluster> cluster_;
  std::shared_ptr<const aceso::Tables> tables_;
};

}  // namespace trimtab::tuner
