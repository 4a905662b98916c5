#pragma once

// Oases' cost model (Li et al., section V): one stage over all devices, the whole batch at once in two sub-batches that
// overlap computation and tensor-parallel communication, everything recomputed after communications, and a degree of
// its own for each operator. `oases:paper` is equations (3) to (6), with the slowdowns of overlap where they are
// measured; `oases:published` is what the published planner's program minimizes instead, its deviations included. Both
// leave out gradient synchronization and the optimizer step, and refuse plans that set what they do not price.
// Immutable; any thread.

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

namespace oases {
struct Tables;
}

enum class OasesVariant : std::uint8_t { kPaper, kPublished };

class OasesCostModel final : public CostModel {
 public:
  // Fails where the model does not allow its global batch as a microbatch, and where no tensor-parallel degree is
  // measured for all operators, naming what is missing.
  [[nodiscard]] static Result<OasesCostModel> build(OasesVariant variant, const Model& model, const Cluster& cluster,
                                                    const std::vector<Cost>& costs);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override;
  // The overlapped schedule, action by action; a step's `microbatch` is the sub-batch, -1 for an all-gather between two
  // degrees. It ends with the step by `oases:paper`; the published formula has no schedule of its own.
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const override;
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override;
  [[nodiscard]] const Model& model() const override;
  [[nodiscard]] const Cluster& cluster() const override;
  // Null where no degree is measured on that many devices.
  [[nodiscard]] std::unique_ptr<CostModel> on(const Cluster& cluster) const override;
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const override;
  [[nodiscard]] const oases::Tables& tables() const { return *tables_; }

 private:
  explicit OasesCostModel(std::shared_ptr<const oases::Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const oases::Tables> tables_;
};

}  // namespace trimtab::tuner
