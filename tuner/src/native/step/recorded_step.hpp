#pragma once

// A simulated step with all its actions, what each waited for, and the critical path through it. Pure.

#include "native/step/priced_plan.hpp"
#include "solvers/step_graph.hpp"

namespace trimtab::tuner {

// Dense: a step of thousands of microbatches is recorded in every evaluation. Arrays are indexed by at().
struct RecordedStep {
  double end_ms = 0;  // of the last stage
  std::int32_t microbatches = 1;
  std::vector<double> forward_begin;
  std::vector<double> backward_begin;
  std::vector<std::uint8_t> forward_waited;  // 1: the input arrived after the stage was free
  std::vector<std::uint8_t> backward_waited;
  // By pass, where its host held it up: HeldUp; empty where none did.
  std::vector<std::uint8_t> forward_held, second_held, backward_held;
  std::vector<double> exposed;       // by stage: waiting for data on the wire, over the step
  std::vector<double> received;      // by stage: waiting for its inputs, over the step
  std::vector<double> issuing;       // by stage: waiting for its host, its inputs there, over the step
  std::vector<double> synchronized;  // by stage: when its optimizer may start, tied parameters reduced
  std::vector<std::int32_t> source;  // by stage: the one whose last backward decided that
  std::int32_t last_stage = 0;       // to end
  // Of a forward in halves, forward_begin is the first half's; the second half's are indexed by at_half().
  std::int32_t sliced = 0;  // microbatches of the step that some stage forwards in halves
  std::vector<double> second_begin;
  std::vector<std::uint8_t> second_waited;
  // Of a step that is a graph of its own: the critical path from the end to the begin, from the last backward that
  // decides on, and when a pass's input was sent; empty elsewhere.
  std::vector<StepNode> path;
  std::vector<StepNode> forward_inputs, backward_inputs;  // transfers, indexed by at()
  std::vector<double> optimizer_begin;                    // by stage: one after the other on the same devices

  [[nodiscard]] std::size_t at(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches) +
           static_cast<std::size_t>(microbatch);
  }
  // Whether the stage forwards the microbatch in halves.
  [[nodiscard]] bool halves(std::int32_t stage, std::int32_t microbatch) const {
    const auto stages = static_cast<std::int32_t>(exposed.size());
    return microbatch < sliced_forwards(sliced, stages, stage, microbatches);
  }
  [[nodiscard]] std::size_t at_half(std::int32_t stage, std::int32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(sliced) + static_cast<std::size_t>(microbatch);
  }
};

[[nodiscard]] RecordedStep record_step(const PricedPlan& priced);

// How often each stage's actions stand on the path that decides the step's time.
struct CriticalPath {
  std::int32_t end_stage = 0;   // whose last backward decides
  std::int32_t last_stage = 0;  // to end; another one only where tied parameters are reduced in between
  std::vector<std::int32_t> forwards, backwards;  // by stage; without last backwards
  std::vector<std::int32_t> last_backwards;       // 0 or 1; the end stage's is part of its tail and not counted
  std::vector<std::int32_t> transfers;            // from the stage to the next, or back
  std::vector<std::int32_t> half_forwards, half_transfers;
  // What the path has of hosts that issue passes, by stage, ms. Where the end stage's last backward ended when its host
  // had issued it, that backward is none of the path.
  std::vector<double> issuing;
  bool end_issued = false;
};

[[nodiscard]] CriticalPath critical_path(const PricedPlan& priced, const RecordedStep& step);

// The critical path of a native step for pictures: the longest path that runs closest to the last stage (AutoPipe,
// section III-B). Pure.
[[nodiscard]] StepPath step_path(const PricedPlan& priced, const RecordedStep& step);

}  // namespace trimtab::tuner
