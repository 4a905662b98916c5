#pragma once

// Galvatron's published performance models (Wang, Jiang, Miao, Fu et al., PVLDB 2022 and TKDE 2024): `galvatron:v1` and
// `galvatron:v2`, its two published programs with their quirks, and `galvatron:paper`, the equations. A layer takes one
// of the strategies of a decision tree; tuner/papers/galvatron/formulas.hpp says what each version prices. They
// refuse plans that set what they do not price. Immutable; any thread.

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

namespace galvatron {
class Formulas;
struct Profile;
enum class Variant : std::uint8_t;
}  // namespace galvatron

class GalvatronCostModel final : public CostModel {
 public:
  // Fails where layers or links were not measured, or where the version has no formulas for the cluster.
  [[nodiscard]] static Result<GalvatronCostModel> build(galvatron::Variant variant, const Model& model,
                                                        const Cluster& cluster, const std::vector<Cost>& costs);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override;
  // Every stage as the formulas have it: one microbatch after the other at the slowest stage's pace; in v1, whose
  // times are of whole steps, one bar a pass.
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const override;
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override;
  [[nodiscard]] const Model& model() const override { return *model_; }
  [[nodiscard]] const Cluster& cluster() const override { return *cluster_; }
  [[nodiscard]] std::unique_ptr<CostModel> on(const Cluster& cluster) const override;
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const override;
  [[nodiscard]] const galvatron::Formulas& formulas() const { return *formulas_; }

 private:
  GalvatronCostModel() = default;
  [[nodiscard]] std::vector<std::string> missing(const Plan& plan) const;

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Cluster> cluster_;
  std::shared_ptr<const std::vector<Cost>> costs_;
  std::shared_ptr<const galvatron::Profile> profile_;
  std::shared_ptr<const galvatron::Formulas> formulas_;
};

}  // namespace trimtab::tuner
