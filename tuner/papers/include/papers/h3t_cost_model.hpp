#pragma once

// H3T's performance model (Wang et al., NeurIPS 2023, as its published code has it): one microbatch a step over
// replicas whose gradients and optimizer are sharded, the optimizer on the host, and seven switches a layer. Time and
// allocated memory come from a simulation of the segments (src/solvers/h3t/segment_simulator.hpp). `h3t:nvlink` has
// collectives beside copies to and from the host, `h3t:pcie` has all of them on one link. It leaves out what the paper
// leaves out (the allocator's reserve, the process, slowdown by overlap, the host link that a node's devices share) and
// refuses plans that set what it does not price. Immutable; any thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

namespace h3t {
enum class Fabric : std::uint8_t;
struct StepInputs;
struct Problem;
}  // namespace h3t

class H3tCostModel final : public CostModel {
 public:
  [[nodiscard]] static Result<H3tCostModel> build(const Model& model, const Cluster& cluster,
                                                  const std::vector<Cost>& costs, h3t::Fabric fabric,
                                                  CostTableOptions options);

  [[nodiscard]] std::string_view name() const override;
  [[nodiscard]] Prediction evaluate(const Plan& plan) const override;
  // Every task of the simulated step: communication may overlap itself.
  [[nodiscard]] std::vector<TimelineEvent> timeline(const Plan& plan) const override;
  [[nodiscard]] std::vector<std::string> unpriced(const Plan& plan) const override;
  [[nodiscard]] const Model& model() const override { return table_.model(); }
  [[nodiscard]] const Cluster& cluster() const override { return table_.cluster(); }
  [[nodiscard]] std::unique_ptr<CostModel> on(const Cluster& cluster) const override;
  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const PlanSpace& space) const override;

  [[nodiscard]] const CostTable& table() const { return table_; }
  [[nodiscard]] h3t::Fabric fabric() const { return fabric_; }
  // For replicas on the first `devices` devices. `inputs` must outlive the problem.
  [[nodiscard]] h3t::StepInputs inputs(std::int32_t devices) const;
  [[nodiscard]] h3t::Problem problem(const h3t::StepInputs& inputs, std::int32_t devices) const;

 private:
  H3tCostModel(CostTable table, h3t::Fabric fabric) : table_(std::move(table)), fabric_(fabric) {}

  CostTable table_;
  h3t::Fabric fabric_;
};

}  // namespace trimtab::tuner
