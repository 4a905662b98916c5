#include "recorded_step.hpp"

#include <algorithm>

namespace trimtab::tuner {
namespace {

struct Recorder {
  static constexpr bool kSkips = false;
  const PricedPlan& priced;
  RecordedStep& step;

  void forward(std::int32_t s, std::int32_t k, double ready, double arrival, double /*end*/) {
    const std::size_t at = step.at(s, k);
    step.forward_begin[at] = std::max(ready, arrival);
    step.forward_waited[at] = waited(s, s - 1, ready, arrival);
  }
  void half(std::int32_t s, std::int32_t k, bool second, double ready, double arrival, double /*end*/) {
    const std::size_t at = second ? step.at_half(s, k) : step.at(s, k);
    (second ? step.second_begin : step.forward_begin)[at] = std::max(ready, arrival);
    (second ? step.second_waited : step.forward_waited)[at] = arrival > ready ? 1 : 0;
    if (arrival > ready) step.exposed[s] += std::min(arrival - ready, priced.halves[s - 1].transfer);
  }
  void backward(std::int32_t s, std::int32_t k, double ready, double arrival, double /*end*/) {
    const std::size_t at = step.at(s, k);
    step.backward_begin[at] = std::max(ready, arrival);
    step.backward_waited[at] = waited(s, s, ready, arrival);
  }

 private:
  std::uint8_t waited(std::int32_t s, std::int32_t boundary, double ready, double arrival) {
    if (arrival <= ready) return 0;
    step.exposed[s] += std::min(arrival - ready, priced.pipeline[boundary].transfer);
    return 1;
  }
};

// Walks back from the end over what each action waited for.
class Walk {
 public:
  Walk(const PricedPlan& priced, const RecordedStep& step, CriticalPath& path)
      : priced_(priced), step_(step), path_(path), stages_(static_cast<std::int32_t>(priced.pipeline.size())) {}

  void from_last_backward_of(std::int32_t stage) {
    stage_ = stage;
    microbatch_ = step_.microbatches - 1;
    turn_to(false);
    bool first = true;
    while (microbatch_ >= 0) {
      if (!first) count();
      first = false;
      retreat();
    }
  }

 private:
  enum class Half : std::uint8_t { kNone, kFirst, kSecond };

  // To a forward or backward of the microbatch that the walk is at: of one in halves, the end of it.
  void turn_to(bool forward) {
    forward_ = forward;
    half_ = forward && step_.halves(stage_, microbatch_) ? Half::kSecond : Half::kNone;
  }

  void count() {
    if (half_ != Half::kNone) {
      ++path_.half_forwards[stage_];
    } else if (forward_) {
      ++path_.forwards[stage_];
    } else if (microbatch_ == step_.microbatches - 1) {
      ++path_.last_backwards[stage_];
    } else {
      ++path_.backwards[stage_];
    }
  }

  void retreat() {
    if (half_ != Half::kNone) return retreat_from_half();
    const std::vector<std::uint8_t>& waited = forward_ ? step_.forward_waited : step_.backward_waited;
    if (waited[step_.at(stage_, microbatch_)] != 0) {
      ++path_.transfers[forward_ ? stage_ - 1 : stage_];
      stage_ += forward_ ? -1 : 1;
      turn_to(forward_);
    } else if (forward_) {
      before_forward();
    } else {
      before_backward();
    }
  }

  void retreat_from_half() {
    const bool second = half_ == Half::kSecond;
    const bool waited = second ? step_.second_waited[step_.at_half(stage_, microbatch_)] != 0
                               : step_.forward_waited[step_.at(stage_, microbatch_)] != 0;
    if (waited) {
      --stage_;
      ++path_.half_transfers[stage_];
    } else if (second) {
      half_ = Half::kFirst;
    } else {
      before_forward();
    }
  }

  // The action that the same stage ran before this one.
  void before_forward() {
    const std::int32_t warmup = warmup_forwards(priced_.kind, stages_, stage_, step_.microbatches);
    if (microbatch_ > warmup) {
      microbatch_ -= warmup + 1;
      turn_to(false);
    } else {
      --microbatch_;
      turn_to(true);
    }
  }

  void before_backward() {
    const std::int32_t warmup = warmup_forwards(priced_.kind, stages_, stage_, step_.microbatches);
    if (microbatch_ + warmup < step_.microbatches) {
      microbatch_ += warmup;
      turn_to(true);
    } else if (microbatch_ == 0) {
      microbatch_ = step_.microbatches - 1;
      turn_to(true);
    } else {
      --microbatch_;
    }
  }

  const PricedPlan& priced_;
  const RecordedStep& step_;
  CriticalPath& path_;
  std::int32_t stages_;
  std::int32_t stage_ = 0;
  std::int32_t microbatch_ = 0;
  bool forward_ = false;
  Half half_ = Half::kNone;
};

}  // namespace

RecordedStep record_step(const PricedPlan& priced) {
  const auto stages = static_cast<std::int32_t>(priced.pipeline.size());
  RecordedStep step;
  step.microbatches = priced.microbatches;
  const std::size_t actions = step.at(stages, 0);
  step.forward_begin.resize(actions);
  step.backward_begin.resize(actions);
  step.forward_waited.resize(actions);
  step.backward_waited.resize(actions);
  step.exposed.assign(priced.pipeline.size(), 0.0);
  step.sliced = priced.sliced().microbatches;
  step.second_begin.resize(step.at_half(stages, 0));
  step.second_waited.resize(step.at_half(stages, 0));
  PipelineScratch scratch;
  Recorder recorder{priced, step};
  Simulation<Recorder> simulation(priced.pipeline.data(), stages, priced.microbatches, priced.kind, scratch, recorder,
                                  priced.sliced());
  const double* const ends = simulation.run();
  step.source.resize(priced.pipeline.size());
  synchronize(simulation.stages(), stages, ends, priced.ties, step.synchronized, &step.source);
  for (std::int32_t s = 0; s < stages; ++s) {
    const double end = step.synchronized[s] + simulation.stages()[s].after;
    if (end <= step.end_ms) continue;
    step.end_ms = end;
    step.last_stage = s;
  }
  return step;
}

CriticalPath critical_path(const PricedPlan& priced, const RecordedStep& step) {
  const std::size_t stages = priced.pipeline.size();
  CriticalPath path;
  path.forwards.assign(stages, 0);
  path.backwards.assign(stages, 0);
  path.last_backwards.assign(stages, 0);
  path.transfers.assign(stages, 0);
  path.half_forwards.assign(stages, 0);
  path.half_transfers.assign(stages, 0);
  path.last_stage = step.last_stage;
  path.end_stage = step.source[step.last_stage];
  Walk(priced, step, path).from_last_backward_of(path.end_stage);
  return path;
}

}  // namespace trimtab::tuner
