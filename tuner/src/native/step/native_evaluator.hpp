#pragma once

// The native model's evaluator: stages and transfers are memoized, the pipeline is simulated exactly. It knows no
// bounds: native/cost_model.cpp adds those. One per search; not thread-safe.

#include "native/stage/native_stage_program.hpp"
#include "native/stage/recompute_choice.hpp"
#include "native/stage/sequence_costs.hpp"
#include "native/stage/sub_batch_stage.hpp"
#include "native/stage/switch_stage.hpp"
#include "native/stage/transfer.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner {

class NativeSwitchProgram;

class NativeEvaluator : public Evaluator, public StagePricers, public SwitchChooser, public StageSolver {
 public:
  NativeEvaluator(const NativeCostModel& cost_model, const PlanSpace& space);

  Score price(const Candidate& candidate) override;
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override;
  [[nodiscard]] bool prices_stages_apart() const override { return true; }
  Plan plan(const Candidate& candidate) override;
  std::string excess_text(const Candidate& candidate) override;
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override;
  // Whether the space has memory switches, and costs to price them by.
  [[nodiscard]] bool has_switches() const;
  std::optional<CandidateStage> with_switches(const Candidate& candidate, std::size_t stage) override;
  // native_stage_proposals.cpp
  std::vector<CandidateStage> stage_proposals(const Candidate& candidate, std::size_t stage) override;
  void forget() override;
  void stop_when(std::function<bool()> stop) override {
    stop_ = stop;
    switch_stage_.stop_when(std::move(stop));
  }
  StagePricers* stage_pricers() override { return this; }
  SwitchChooser* switch_chooser() override { return this; }
  StageSolver* stage_solver() override { return this; }
  [[nodiscard]] bool stopped() const { return stop_ && stop_(); }
  // native_stage_pricer.cpp
  std::unique_ptr<StagePricer> stage_pricer(std::int32_t microbatch) override;
  // A stage that begins with operator `begin` on device `first_device` and holds `held` microbatches. Valid until the
  // next call of a method that is not const.
  const StagePrice& stage_alone(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                std::int32_t microbatch, std::int32_t held, const SubBatches& sub_batches = {});
  // Such a stage with memory switches, its recompute among them: the best for this many microbatches a step, within 1 %
  // as far as there is time (SwitchStage::choose), or those with the least memory where none fit. Its gradients are
  // sharded over its replicas. Nothing where its segments cut a layer, the space has no such shards, or a cost is
  // missing.
  std::optional<CandidateStage> with_best_switches(CandidateStage of, std::int32_t begin, std::int32_t first_device,
                                                   std::int32_t microbatch, std::int32_t held);
  // A forward of such a stage with half of its microbatch, `half`; ms, infinite where a cost is missing.
  const HalfPass& half_pass(const CandidateStage& of, std::int32_t begin, std::int32_t first_device, std::int32_t half);
  // Stages on as many devices and of equal place cost the same.
  [[nodiscard]] std::int32_t place_of(std::int32_t first_device, std::int32_t devices) {
    return places_.of(first_device * group_, devices * group_);
  }

  // The candidate's stages with their transfers, as the simulation takes them, and the worst stage's excess. Not
  // priced: a cost is missing.
  [[nodiscard]] bool pipeline_of(const Candidate& candidate, std::vector<PipelineStage>& pipeline,
                                 double& excess_bytes);

 private:
  const StagePrice& stage_at(const Candidate& candidate, std::size_t stage, std::int32_t first_device);
  // Where a candidate's device begins (PlanSpace::sequence).
  [[nodiscard]] const std::int32_t* devices_from(std::int32_t device) const {
    return devices_.data() + device * group_;
  }
  [[nodiscard]] double memory_limit_of(std::int32_t first_device, std::int32_t devices) const;
  [[nodiscard]] Score price_interleaved(const Candidate& candidate);
  [[nodiscard]] std::vector<double> passes_sum(std::int32_t microbatch, const Split& split);
  // As it holds on these devices. Valid until the next call.
  [[nodiscard]] const Calibration& calibration_on(std::int32_t first_device, std::int32_t devices);
  [[nodiscard]] StagePrice price_stage(const CandidateStage& of, std::int32_t begin, std::int32_t first_device,
                                       std::int32_t microbatch, std::int32_t held, const SubBatches& sub_batches);
  [[nodiscard]] StagePrice price_switched(const CandidateStage& of, std::int32_t first_device, StagePrice price);
  // native_stage_proposals.cpp
  [[nodiscard]] double best_round_ms(const CandidateStage& of, const StageSite& site, std::int32_t first_device);
  [[nodiscard]] std::vector<CandidateStage> solve_stage_at(const StageSite& site, std::int32_t first_device);
  [[nodiscard]] std::vector<CandidateStage> plain_stages_at(const StageSite& site) const;
  [[nodiscard]] std::vector<CandidateStage> mixed_stages_at(const NativeStageProgram& program, const StageSite& site,
                                                            std::int32_t first_device);
  [[nodiscard]] std::vector<CandidateStage> switched_stages_at(const StageSite& site, std::int32_t first_device);
  void add_mixed_switched(const NativeSwitchProgram& program, const StageSite& site,
                          std::vector<CandidateStage>& stages) const;
  bool set_half_inputs(const CandidateStage& of, std::int32_t begin, std::int32_t first_device, std::int32_t half);
  void set_shape(const CandidateStage& of, std::int32_t begin, std::int32_t first_device, std::int32_t microbatch);
  [[nodiscard]] std::int32_t flight_of(const Candidate& candidate, std::size_t stage) const;
  // To the next stage; ms, infinite where a cost is missing.
  double transfer(const Candidate& candidate, std::size_t stage, std::int32_t first_device, std::int32_t microbatch);
  bool set_pipeline(const Candidate& candidate, Score& score);
  bool set_halves(const Candidate& candidate);
  struct Step {
    Score score;
    SubBatches sub_batches;
    std::int32_t sliced = 0;
  };
  [[nodiscard]] double pipeline_ms(const Candidate& candidate, std::int32_t sliced);
  // After set_pipeline().
  [[nodiscard]] double best_sliced(const Candidate& candidate, std::int32_t& sliced);
  [[nodiscard]] Step step_with(const Candidate& candidate, const SubBatches& sub_batches);
  [[nodiscard]] Step best_step(const Candidate& candidate);
  [[nodiscard]] SubBatches sub_batches_of(const Candidate& candidate) const;
  Quality set_ties(const Candidate& candidate);

  const CostTable::Tables* tables_;
  const Calibration* calibration_;
  std::vector<std::int32_t> node_of_;  // by device
  std::vector<double> slowness_;       // by device; empty where all are as fast as the costs say
  Calibration slowed_;                 // of calibration_on()
  std::vector<std::int32_t> devices_;  // 0, 1, ...
  std::int32_t group_;                 // devices that stand for one of a candidate
  LeastSharingCosts sharing_;
  StagePlaces places_;
  SplitCatalog catalog_;
  KnownPatterns known_patterns_;  // of the catalog's prices
  SubBatches sub_batches_;        // that stage_at() prices
  std::uint64_t latest_ = 0;      // candidate that `latest_sub_batches_` are of
  SubBatches latest_sub_batches_;
  SubBatchStage sub_batch_stage_;
  SwitchStage switch_stage_;
  std::unordered_map<LookupKey, StagePrice, LookupKeyHash> stages_;
  std::unordered_map<LookupKey, double, LookupKeyHash> transfers_;
  std::unordered_map<LookupKey, HalfPass, LookupKeyHash> halves_of_;  // forwards of half a microbatch
  std::unordered_map<LookupKey, std::vector<double>, LookupKeyHash> sums_;
  std::unordered_map<LookupKey, std::vector<CandidateStage>, LookupKeyHash> proposals_;
  std::function<bool()> stop_;
  LookupKey key_;      // the one looked up
  StagePrice answer_;  // of stage()
  std::vector<PipelineStage> pipeline_;
  std::vector<ReplicaSpread> spreads_;
  std::vector<HalfPass> halves_;
  std::vector<PipelineStage> sent_at_once_;  // the same without transfers: for a bubble that a factor stretches
  std::vector<HalfPass> halves_sent_at_once_;
  PipelineScratch scratch_;
  TiedReductions ties_;
  std::vector<TiedStage> tied_stages_;
  StageShape shape_;
  StageInputs inputs_;
  StageInputs half_inputs_;
  RecomputeFlags flags_;
};

}  // namespace trimtab::tuner
