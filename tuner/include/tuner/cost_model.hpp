#pragma once

// What a cost model answers: the price of a plan, the picture behind it, and which of the plan's knobs it leaves out.
// Immutable; any thread. The native model and the models of papers stand behind this one interface.

#include "schema/timeline.hpp"
#include "tuner/calibration.hpp"
#include "tuner/cost_table.hpp"

namespace trimtab::tuner {

class Evaluator;   // tuner/src/pricing/evaluator.hpp: the inner loop of a search
struct PlanSpace;  // tuner/src/plan/plan_space.hpp

using EventKind = TimelineKind;

struct TimelineEvent {
  std::int32_t stage = 0;
  EventKind kind = EventKind::kForward;
  std::int32_t microbatch = 0;  // -1 where it does not apply
  double begin_ms = 0;
  double end_ms = 0;
};

// What decides how long a step takes.
struct StepPath {
  // Where the path stays longest while the stage is in its steady phase; -1 where the model knows no path.
  std::int32_t master_stage = -1;
  // The actions on it, first to last: of all longest paths the one that runs closest to the last stage. Times between
  // them are transfers.
  std::vector<TimelineEvent> actions;
};

class CostModel {
 public:
  virtual ~CostModel() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;  // "native"
  // REQUIRES: validate(plan) is empty. A plan over a device's memory is priced all the same, with feasible = false.
  [[nodiscard]] virtual Prediction evaluate(const Plan& plan) const = 0;
  // The iteration behind evaluate(), sorted by (stage, begin).
  [[nodiscard]] virtual std::vector<TimelineEvent> timeline(const Plan& plan) const = 0;
  // The critical path through that iteration.
  [[nodiscard]] virtual StepPath step_path(const Plan& /*plan*/) const { return {}; }
  // A line for each cost that evaluate() uses: which measurement it rests on. Nothing where a model does not say.
  [[nodiscard]] virtual std::vector<std::string> rests_on(const Plan& /*plan*/) const { return {}; }
  // Knobs that the plan sets and this model does not price, each by its place and name: a reason to refuse the plan.
  [[nodiscard]] virtual std::vector<std::string> unpriced(const Plan& plan) const = 0;
  [[nodiscard]] virtual const Model& model() const = 0;
  [[nodiscard]] virtual const Cluster& cluster() const = 0;
  // The same model on a cluster whose nodes have other counts of devices or memory, for what-if questions; null where a
  // model cannot say.
  [[nodiscard]] virtual std::unique_ptr<CostModel> on(const Cluster& /*cluster*/) const { return nullptr; }
  // For a search over `space`. Both must outlive the evaluator.
  [[nodiscard]] virtual std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const = 0;
};

// The native model: iteration time by exact event-driven simulation of the schedule (1F1B is PipeDream-Flush, Narayanan
// et al. 2021), and memory. Shares the table's contents.
class NativeCostModel final : public CostModel {
 public:
  explicit NativeCostModel(CostTable table, Calibration calibration = {});

  [[nodiscard]] std::string_view name() const override { return "native"; }
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override;
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const override;
  [[nodiscard]] StepPath step_path(const Plan& plan) const override;
  [[nodiscard]] std::vector<std::string> rests_on(const Plan& plan) const override;
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override;
  [[nodiscard]] const Model& model() const override { return table_.model(); }
  [[nodiscard]] const Cluster& cluster() const override { return table_.cluster(); }
  [[nodiscard]] std::unique_ptr<CostModel> on(const Cluster& cluster) const override;
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const override;

  // The same with other factors of time than this calibration's; those of operators and memory stay.
  [[nodiscard]] NativeCostModel under(const Calibration& times) const;

  // With the calibration's factors of operators and of memory; the others stand apart.
  [[nodiscard]] const CostTable& table() const { return table_; }
  [[nodiscard]] const Calibration& calibration() const { return calibration_; }

 private:
  CostTable table_;
  Calibration calibration_;
};

}  // namespace trimtab::tuner
