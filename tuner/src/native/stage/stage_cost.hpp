#pragma once

// The price of one pipeline stage: its times per microbatch, its last microbatch with overlapped gradient
// synchronization, its memory. Pure functions over resolved inputs.

#include "native/stage/operator_price.hpp"
#include "native/stage/stragglers.hpp"
#include "plan/recompute_flags.hpp"

namespace trimtab::tuner {

// A stage with what each of its operators costs. Arrays are indexed by operator minus operators.begin.
struct StageInputs {
  Range operators;
  std::int32_t in_flight = 1;
  double input_bytes = 0;  // of one microbatch, kept whatever is recomputed
  std::vector<const OperatorPrice*> prices;
  std::vector<std::int32_t> groups;
  // Bytes of one microbatch. What is recomputed at once is a run of recomputed operators, which ends where something is
  // not recomputed and behind each operator of `ends_run`; of a run, its input is kept: the output before it.
  std::vector<double> kept_output;   // that a run's last operator keeps
  std::vector<double> freed_output;  // that an operator does not keep of what it stores, unless a run begins behind it
  std::vector<std::uint8_t> ends_run;
  // Where microbatches run in parts: what works at once, and the most that recomputing the operator brings back; empty
  // where the whole microbatch does.
  std::vector<const OperatorPrice*> at_work;
  std::vector<double> brought_back;
  std::vector<double> change_forward;  // ms of the layout change before the operator; empty where there is none
  std::vector<double> change_backward;
  double change_error = 0;
  double tied_states = 0;  // of parameters that are counted in several operators' prices and held once
  Launches messages;       // of the host: what is sent, received and reduced, but for what passes contain
  BucketPrices buckets;    // in place of what the prices say of gradients, and of parameters after the optimizer
  bool gathers_ahead = false;
  double process_bytes = 0;
  double slowest = 0;  // of replicas, the most segments' expected maximum; 0 where nobody waits
  double device_share = 0;
  bool synchronizes = false;  // some segment has replicas
  bool gathers = false;       // some segment shards parameters
  bool scatters = false;      // or gradients
  bool prefetches = true;
  bool slows_down = false;     // some communication and what may run beside it
  bool gathers_apart = false;  // parameters are gathered while gradients are scattered, as was measured
  bool whole_gradients = false;
  bool complete = false;  // no cost is missing

  [[nodiscard]] const OperatorPrice& price(std::int32_t i) const { return *prices[i - operators.begin]; }
  // Whether what stands behind place `k` of the stage begins a run or, where `k` is recomputed, goes on with its run.
  [[nodiscard]] bool again_behind(std::size_t k, const std::vector<std::uint8_t>& recompute) const {
    return k + 1 < prices.size() && ends_run[k] == 0 &&
           recompute[static_cast<std::size_t>(operators.begin) + k + 1] != 0;
  }
  // Of a run of one operator, by place in the stage.
  [[nodiscard]] double recompute_peak(std::size_t k) const {
    return brought_back.empty() ? prices[k]->stored : brought_back[k];
  }
  [[nodiscard]] bool communicates() const { return synchronizes || !change_forward.empty(); }
};

// `catalog` must outlive the inputs. Reuses what `inputs` has allocated.
void resolve(const CostTable::Tables& tables, const StageShape& shape, SplitCatalog& catalog, StageInputs& inputs);

struct StageTimes {
  double forward = 0;
  double backward = 0;  // without recompute
  double recompute = 0;
  double forward_wait = 0;   // exposed collectives of a forward pass
  double backward_wait = 0;  // of a backward pass other than the last
  double last_backward = 0;  // recompute, collectives and slowdown by synchronization included
  double sync_end = 0;       // from the begin of the last backward; 0 without synchronization
  double optimizer = 0;
  double update_wait = 0;   // of that, the device's for its host
  double gather_after = 0;  // of parameters, after the optimizer: all, or what delays the next step's forward
  Launches launches;        // of the host, of one microbatch; recompute is in the backward pass
  ReplicaSpread spread;     // where replicas synchronize once a step; 0 where they do more often

  [[nodiscard]] double forward_pass() const { return forward + forward_wait; }
  [[nodiscard]] double backward_pass() const { return backward + recompute + backward_wait; }
  // From the begin of the last backward until the optimizer may start.
  [[nodiscard]] double synchronized() const { return last_backward > sync_end ? last_backward : sync_end; }
  // From the begin of the last backward to the end of the stage's step.
  [[nodiscard]] double tail() const { return synchronized() + optimizer + gather_after; }
  // What gradient synchronization adds to a step.
  [[nodiscard]] double exposed_sync() const { return tail() - optimizer - backward_pass(); }
};

struct StageBytes {
  double states = 0;
  double activations = 0;
  double recompute_peak = 0;  // brought back by the largest run, beyond what has been released by then
  double working = 0;
  double process = 0;
  double gradient_buffer = 0;
  double gathered = 0;  // sharded parameters that are whole for a while: an operator's and the next one's

  [[nodiscard]] double total() const {
    return states + activations + recompute_peak + working + process + gradient_buffer + gathered;
  }
};

// Adds what replicas wait for the slowest of them: to the passes where they synchronize in every microbatch, else the
// spread to `times`. `parts` of a microbatch, with the prices of `part`, are computed one after the other.
void add_pass_waits(const Calibration& calibration, const StageInputs& stage, const StageInputs& part, int parts,
                    const RecomputeFlags& recompute, StageTimes& times);

// What the host issues of a stage: `parts` of a microbatch one after the other, with the prices of `part`. The
// optimizer waits for all gradients, and the host with it: it takes the longer of issuing it and of what it computes.
void add_launches(const Calibration& calibration, const StageInputs& part, int parts, const RecomputeFlags& recompute,
                  StageTimes& times);

// A missing cost counts as 0. `overlap`: what of the slowdowns is taken.
[[nodiscard]] StageTimes stage_times(const Calibration& calibration, const StageInputs& inputs,
                                     const RecomputeFlags& recompute, const OverlapScale& overlap = {});
// Where the stage's last unit begins, of those that may be recomputed at once; and what that keeps of one microbatch
// where nothing of it is recomputed: gone before the backward pass comes to any other.
[[nodiscard]] std::size_t last_unit(const StageInputs& inputs);
[[nodiscard]] double released_first(const StageInputs& inputs);
[[nodiscard]] StageBytes stage_bytes(const StageInputs& inputs, const RecomputeFlags& recompute);

}  // namespace trimtab::tuner
