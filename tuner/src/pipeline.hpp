#pragma once

// Event-driven simulation of a pipeline step, exact for the reference trainer's rules: each stage runs its actions in
// schedule order; an action starts when its stage is free and its input has arrived; input arrives one transfer time
// after the sender's action ended; sending blocks nobody. O(stages x microbatches), no allocation once
// `PipelineScratch` has grown. Pure.
//
// 1F1B (PipeDream-Flush): stage s runs w = S - s - 1 forwards, then forward and backward in turn, then the rest of the
// backwards. GPipe is the same with w = all forwards.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schema/plan.hpp"

namespace trimtab::tuner {

struct PipelineStage {
  double forward = 0;        // of one microbatch
  double backward = 0;       // of one microbatch, recompute included
  double last_backward = 0;  // of the last microbatch: gradient synchronization slows it down
  double tail = 0;           // from the begin of the last backward to the end of the stage's step
  double transfer = 0;       // to the next stage, of an activation or a gradient; 0 on the last
};

struct PipelineScratch {
  std::vector<double> arrivals;  // ends of the warm-up forwards of the stage before
  std::vector<double> free;      // when each stage is free
};

inline std::int32_t warmup_forwards(ScheduleKind kind, std::int32_t stages, std::int32_t stage,
                                    std::int32_t microbatches) {
  return kind == ScheduleKind::kGPipe ? microbatches : std::min(microbatches, stages - stage - 1);
}

// Microbatches whose activations a stage holds at once.
inline std::int32_t in_flight(ScheduleKind kind, std::int32_t stages, std::int32_t stage, std::int32_t microbatches) {
  return kind == ScheduleKind::kGPipe ? microbatches : std::min(microbatches, stages - stage);
}

struct NoRecord {
  void forward(std::int32_t, std::int32_t, double, double, double) {}
  void backward(std::int32_t, std::int32_t, double, double, double) {}
};

// A step's simulation, one action after the other. `record.forward(stage, microbatch, free, arrival, end)` and
// `record.backward(...)` see each: `free` is when the stage was ready, `arrival` when its input was there (negative
// where it needs none).
template <typename Record>
class Simulation {
 public:
  Simulation(const PipelineStage* stages, std::int32_t count, std::int32_t microbatches, ScheduleKind kind,
             PipelineScratch& scratch, Record& record)
      : stages_(stages), count_(count), microbatches_(microbatches), kind_(kind), record_(record) {
    const std::int32_t arrivals = std::max(microbatches, count);
    if (static_cast<std::int32_t>(scratch.arrivals.size()) < arrivals) scratch.arrivals.resize(arrivals);
    if (static_cast<std::int32_t>(scratch.free.size()) < count) scratch.free.resize(count);
    std::fill_n(scratch.free.begin(), count, 0.0);
    arrivals_ = scratch.arrivals.data();
    free_ = scratch.free.data();
  }

  // When the last stage to end has ended.
  double run() {
    warm_up();
    std::copy_n(free_, count_, arrivals_);
    for (std::int32_t round = 0; round < microbatches_; ++round) {
      forwards(round);
      backwards(round);
    }
    double end = 0;
    for (std::int32_t s = 0; s < count_; ++s) {
      end = std::max(end, free_[s] - stages_[s].last_backward + stages_[s].tail);
    }
    return end;
  }

 private:
  static constexpr double kAtOnce = -1.0;

  // arrivals_[k] is the end of the previous stage's forward k.
  void warm_up() {
    for (std::int32_t s = 0; s < count_; ++s) {
      const std::int32_t forwards = warmup_forwards(kind_, count_, s, microbatches_);
      for (std::int32_t k = 0; k < forwards; ++k) {
        const double arrival = s > 0 ? arrivals_[k] + stages_[s - 1].transfer : kAtOnce;
        arrivals_[k] = forward(s, k, arrival);
      }
    }
  }

  // From here on arrivals_[s] is the end of stage s's latest forward. Stage s needs the forward that stage s - 1 ran in
  // the round before, which is still its latest when stages are visited last to first.
  void forwards(std::int32_t round) {
    for (std::int32_t s = count_ - 1; s >= 0; --s) {
      const std::int32_t k = warmup_forwards(kind_, count_, s, microbatches_) + round;
      if (k >= microbatches_) continue;
      const double arrival = s > 0 ? arrivals_[s - 1] + stages_[s - 1].transfer : kAtOnce;
      arrivals_[s] = forward(s, k, arrival);
    }
  }

  void backwards(std::int32_t round) {
    const bool last = round == microbatches_ - 1;
    for (std::int32_t s = count_ - 1; s >= 0; --s) {
      const double arrival = s < count_ - 1 ? free_[s + 1] + stages_[s].transfer : kAtOnce;
      const double ready = free_[s];
      free_[s] = std::max(ready, arrival) + (last ? stages_[s].last_backward : stages_[s].backward);
      record_.backward(s, round, ready, arrival, free_[s]);
    }
  }

  double forward(std::int32_t s, std::int32_t k, double arrival) {
    const double ready = free_[s];
    free_[s] = std::max(ready, arrival) + stages_[s].forward;
    record_.forward(s, k, ready, arrival, free_[s]);
    return free_[s];
  }

  const PipelineStage* stages_;
  std::int32_t count_;
  std::int32_t microbatches_;
  ScheduleKind kind_;
  Record& record_;
  double* arrivals_ = nullptr;
  double* free_ = nullptr;
};

// The step's time alone.
inline double simulate(const PipelineStage* stages, std::int32_t count, std::int32_t microbatches, ScheduleKind kind,
                       PipelineScratch& scratch) {
  NoRecord record;
  return Simulation<NoRecord>(stages, count, microbatches, kind, scratch, record).run();
}

}  // namespace trimtab::tuner
