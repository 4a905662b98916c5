#include "recording_policy.hpp"

#include <algorithm>

namespace trimtab::inject::cupti {

void RecordingPolicy::recorded(bool on, const RecordingState& state) {
  if (on == on_) return;
  on_ = on;
  if (!on) {
    recorded_ns_ += state.now_ns - on_since_ns_;
    paused_ns_ = state.now_ns;
    return own_cost_.phase_ended(state.now_ns);
  }
  own_cost_.phase_cost(state.base_ns - phase_base_ns_);
  own_cost_.phase_begun(state.now_ns);
  on_since_ns_ = state.now_ns;
  phase_base_ns_ = state.base_ns;
  phase_kernels_ = state.kernels;
  settled_ = false;
}

void RecordingPolicy::flushed(const RecordingState& state) {
  if (settled_ || on_ || state.now_ns < paused_ns_ + kSettleNs) return;
  settled_ = true;
  own_cost_.phase_cost(state.base_ns - phase_base_ns_);
  if (state.kernels == phase_kernels_) sampler_.restart();  // nothing ran
}

void RecordingPolicy::keep_budget(const RecordingState& state) {
  BudgetSample sample;
  sample.now_ns = state.now_ns;
  sample.cost_ns = state.cost_ns;
  sample.recording_ns = recorded_ns_ + (on_ ? state.now_ns - on_since_ns_ : 0);
  sample.kernels = state.kernels;
  sample.ring_drops = state.ring_drops;
  sample.settled = settled_ && !on_;
  budget_.update(sample);
}

RecordingPolicy::Record RecordingPolicy::decide(const RecordingState& state, bool asked) {
  keep_budget(state);
  sampling_ = waits_for_steps_ = false;
  if (asked || budget_.level() == record::kDetailAll) {
    sampler_.restart();
    waits_for_steps_ = !asked && share_ < 1 && left_out_.update(state.now_ns, state.steps, settled_);
    return waits_for_steps_ ? Record::kNotNow : Record::kAll;
  }
  if (budget_.level() < record::kDetailSampled) {
    sampler_.restart();
    return Record::kTooDear;
  }
  sampling_ = true;
  // What the phase before has cost is known first: the next one is judged by it, and its records are its own.
  if (!on_ && !settled_) return Record::kNotNow;
  const PhaseLimits limits{budget_.duty(), budget_.allowance_ns(), budget_.whole_allowance_ns()};
  const bool record = sampler_.update(limits, state.now_ns, state.steps);
  waits_for_steps_ = record;
  return record ? Record::kAll : Record::kNotNow;
}

std::uint64_t RecordingPolicy::due_ns(std::uint64_t now_ns) const {
  const bool often = share_ < 1 && (on_ || budget_.is_new(now_ns));
  const std::uint64_t turn_ns = often ? now_ns + kTurnNs : ~std::uint64_t{0};
  return sampling_ && settled_ != on_ ? std::min(turn_ns, std::max(sampler_.next_ns(), now_ns)) : turn_ns;
}

}  // namespace trimtab::inject::cupti
