#pragma once

// A plan with the prices of its stages and transfers, before any simulation; and which of its costs are missing or
// estimated, by name. Pure.

#include "native/stage/sub_batch_stage.hpp"
#include "native/stage/switch_stage.hpp"
#include "native/step/cost_names.hpp"

namespace trimtab::tuner {

struct PricedPlan {
  std::vector<StageShape> shapes;
  std::unique_ptr<SplitCatalog> catalog;
  std::vector<StageInputs> inputs;
  std::vector<StageTimes> times;
  std::vector<StageBytes> bytes;
  std::vector<double> device_bytes;  // of the stage's devices, with whatever other stages they have
  std::vector<double> host_bytes;    // of a rank, beyond its process: memory switches
  std::vector<double> host_limits;   // 0 = unlimited
  std::vector<double> limits;        // memory of a stage's smallest device; 0 = unlimited
  std::vector<Value> transfers;      // to the next stage; one fewer than stages
  std::vector<PipelineStage> pipeline;
  std::vector<double>
      straggler_waits;  // ms of a step, by stage: for the slowest of its replicas, before they synchronize
  // Of half a microbatch, by stage; empty without sliced microbatches or sub-batches.
  std::vector<StageShape> half_shapes;
  std::vector<StageInputs> half_inputs;
  std::vector<HalfPass> halves;  // of sliced microbatches
  std::int32_t sliced_microbatches = 0;
  std::optional<SubBatchSchedule> sub_batches;
  TiedReductions ties;
  RecomputeFlags recompute;
  std::vector<std::optional<Switches>> switched;  // by stage; nothing without memory switches
  std::vector<std::int32_t> sharers;              // of a stage's devices, those on one node
  std::vector<const Stage*> stages;               // the plan's
  std::vector<double> slowness;                   // of devices; empty where all are as fast as the costs say
  const CostTable::Tables* tables = nullptr;
  std::int32_t microbatches = 1;
  ScheduleKind kind = ScheduleKind::k1F1B;
  std::int32_t seats = 1;       // groups of devices; fewer than stages in the interleaved schedule
  bool transfers_meet = false;  // sender and receiver go on together
  CostNames names;

  // Whether the step is a graph of its own (step_graph.hpp), not the recurrences of pipeline.hpp.
  [[nodiscard]] bool by_graph() const { return transfers_meet || kind == ScheduleKind::kInterleaved; }

  // A stage with memory switches.
  [[nodiscard]] SwitchedStage switched_stage(const Calibration& calibration, std::size_t stage,
                                             std::vector<SwitchCost>* unmeasured = nullptr) const;
  // The calibration as it holds on a stage's devices.
  [[nodiscard]] Calibration on_devices(const Calibration& calibration, std::size_t stage) const;
  // A stage's times under another calibration, and another view of what overlap slows down.
  [[nodiscard]] StageTimes times_under(const Calibration& calibration, std::size_t stage,
                                       const OverlapScale& overlap = {}) const;
  [[nodiscard]] SlicedWarmup sliced() const { return {sliced_microbatches, halves.data()}; }
};

// The plan must outlive the answer. REQUIRES: the plan is valid for the tables' model and cluster.
[[nodiscard]] PricedPlan price(const CostTable::Tables& tables, const Calibration& calibration, const Plan& plan);

// A prediction's memory, in whole bytes.
void set_memory(const StageBytes& bytes, StagePrediction& stage);

[[nodiscard]] PipelineStage pipeline_stage(const StageTimes& times);

// The smallest memory of some devices; 0 = unlimited.
[[nodiscard]] double memory_limit(const Cluster& cluster, const std::vector<std::int32_t>& node_of,
                                  const std::int32_t* devices, std::int32_t count);

// Why a plan does not fit, in words: which stage, by how much, and the smallest change that would make it fit.

// Index of the stage that is furthest over its limit, or -1 when all fit.
[[nodiscard]] std::int32_t worst_memory_stage(const PricedPlan& priced);
// Bytes of a stage over its limit; 0 when it fits.
[[nodiscard]] double excess_bytes(const PricedPlan& priced, std::size_t stage);

// REQUIRES: `stage` does not fit. `may_recompute` false = the job cannot.
[[nodiscard]] std::string describe_excess(const CostTable::Tables& tables, const Calibration& calibration,
                                          const Plan& plan, const PricedPlan& priced, std::int32_t stage,
                                          bool may_recompute = true);

// What calibration makes of a step's bubble: what the busiest stage idles in it where nothing takes time to send, the
// filling and draining of the pipeline and the waits for uneven stages. It scales with a factor; what that stage does
// stands, and so does what a step takes longer for its transfers. A step of one stage has no bubble. Pure.
struct BusiestSeat {
  std::int32_t seat = 0;
  double ms = 0;          // of a step
  double issuing_ms = 0;  // of that, its host's, where that is busier than its devices
};

// Stage s runs on seat s mod `seats`: its own, but in the interleaved schedule.
[[nodiscard]] inline BusiestSeat busiest_seat(const std::vector<PipelineStage>& stages, std::int32_t seats,
                                              std::int32_t microbatches) {
  BusiestSeat busiest;
  for (std::int32_t seat = 0; seat < seats; ++seat) {
    double ms = 0;
    double issuing = 0;
    double after = 0;  // the last backward
    for (std::size_t s = static_cast<std::size_t>(seat); s < stages.size(); s += static_cast<std::size_t>(seats)) {
      ms += microbatches * stages[s].forward + (microbatches - 1) * stages[s].backward + stages[s].tail;
      issuing += microbatches * (stages[s].forward_launch + stages[s].backward_launch);
      after += stages[s].tail - stages[s].last_backward;
    }
    const bool issues = issuing > 0 && issuing + after > ms;
    if (issues) ms = issuing + after;
    if (ms > busiest.ms) busiest = {seat, ms, issues ? issuing : 0};
  }
  return busiest;
}

// Of a step that takes so long without transfers.
[[nodiscard]] inline double bubble_ms(const BusiestSeat& busiest, double sent_at_once_ms) {
  return std::max(0.0, sent_at_once_ms - busiest.ms);
}

inline void send_at_once(std::vector<PipelineStage>& stages, std::vector<HalfPass>& halves) {
  for (PipelineStage& stage : stages) stage.transfer = 0;
  for (HalfPass& half : halves) half.transfer = 0;
}

}  // namespace trimtab::tuner
