#pragma once

// The native model's evaluator: stages and transfers are memoized, the pipeline is simulated exactly. One per search;
// not thread-safe.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "evaluator.hpp"
#include "lookup_key.hpp"
#include "pipeline.hpp"
#include "stage_cost.hpp"
#include "tied_reduction.hpp"

namespace trimtab::tuner {

class NativeEvaluator final : public Evaluator {
 public:
  NativeEvaluator(const NativeCostModel& cost_model, const PlanSpace& space);

  Score price(const Candidate& candidate) override;
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override;
  Plan plan(const Candidate& candidate) override;
  std::string excess_text(const Candidate& candidate) override;
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override;
  [[nodiscard]] double lower_bound_ms(const BoundRequest& request) override;
  std::vector<Candidate> plans_near_bound(const BoundRequest& request) override;
  void forget() override;
  std::unique_ptr<unified::StagePricer> stage_pricer(std::int32_t microbatch) override;
  // A stage that begins with operator `begin` on device `first_device` and holds `held` microbatches. Valid until the
  // next call of a method that is not const.
  const StagePrice& stage_alone(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                std::int32_t microbatch, std::int32_t held);

 private:
  const StagePrice& stage_at(const Candidate& candidate, std::size_t stage, std::int32_t first_device);
  [[nodiscard]] StagePrice price_stage(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                       std::int32_t microbatch, std::int32_t held);
  void set_shape(const CandidateStage& of, std::int32_t begin, std::int32_t first_device, std::int32_t microbatch);
  [[nodiscard]] std::int32_t flight_of(const Candidate& candidate, std::size_t stage) const;
  // To the next stage; ms, infinite where a cost is missing.
  double transfer(const Candidate& candidate, std::size_t stage, std::int32_t first_device);
  Quality set_ties(const Candidate& candidate);

  const NativeCostModel* native_;
  const CostTable::Tables* tables_;
  const Calibration* calibration_;
  std::vector<std::int32_t> node_of_;   // by device
  std::vector<std::int32_t> devices_;   // 0, 1, ...
  std::vector<std::int32_t> place_of_;  // by device: stages that begin at devices of equal place cost the same
  SplitCatalog catalog_;
  std::unordered_map<LookupKey, StagePrice, LookupKeyHash> stages_;
  std::unordered_map<LookupKey, double, LookupKeyHash> transfers_;
  std::unordered_map<LookupKey, std::vector<double>, LookupKeyHash> sums_;
  LookupKey key_;      // the one looked up
  StagePrice answer_;  // of stage()
  std::vector<PipelineStage> pipeline_;
  PipelineScratch scratch_;
  TiedReductions ties_;
  std::vector<TiedStage> tied_stages_;
  StageShape shape_;
  StageInputs inputs_;
  RecomputeFlags flags_;
};

}  // namespace trimtab::tuner
