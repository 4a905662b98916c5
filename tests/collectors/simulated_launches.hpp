#pragma once

// A job that launches kernels in simulated time, under the recording policy: CUPTI hands its records over a buffer at a
// time, or at a flush, and every recorded launch takes the host longer than the policy's constants say, or less. The
// collector's thread takes its turns as Collector::turn() does. What the job really loses is kept in slices, so every
// window of ten seconds can be looked at.

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "cupti/recording_policy.hpp"

namespace trimtab::inject::cupti {

struct SimulatedLaunches {
  // What the job is: by seconds since its first launch.
  std::function<double(double)> launches_per_second = [](double) { return 0.0; };
  std::function<double(double)> cost_us = [](double) { return 1.0; };  // of a recorded launch, truly
  double step_seconds = 0;                                             // 0: it tells none
  double noise = 0;                                                    // of a step, standard deviation of its logarithm
  double idle_before = 0;                                              // seconds from CUDA's start to the first launch
  double collectives_cost = 0;     // of the time, whatever is recorded of kernels unless nothing is
  std::uint64_t drops_a_tick = 0;  // while recording
  double share = 0.005;
  double base_us = 1;  // of a launch, by the settings' constants: kernel_cost_ns, or graph_cost_ns
  std::uint64_t seed = 1;

  static constexpr double kTick = 0.001;
  static constexpr std::uint64_t kTickNs = 1'000'000;
  static constexpr std::uint64_t kBuffer = 6'000;  // records
  static constexpr std::uint64_t kFlushNs = 1'000'000'000;
  static constexpr std::uint64_t kTurnCostNs = 15'000;
  static constexpr std::uint64_t kBegin = 1'000'000'000'000;

  RecordingPolicy policy;
  RecordingState state;
  std::vector<double> lost;      // seconds, by tick since the first launch
  std::vector<double> recorded;  // seconds, by tick
  int changes = 0;               // of the level

  void run(double seconds) {
    if (lost.empty() && state.now_ns == 0) begin();
    for (double until = now() + seconds; now() < until;) tick();
  }
  [[nodiscard]] double now() const { return static_cast<double>(state.now_ns - kBegin) * 1e-9; }
  // The largest share of any ten seconds.
  [[nodiscard]] double worst_window() const {
    const auto window = static_cast<std::size_t>(10 / kTick);
    double sum = 0;
    double worst = 0;
    for (std::size_t i = 0; i < lost.size(); ++i) {
      sum += lost[i];
      if (i >= window) sum -= lost[i - window];
      worst = std::max(worst, sum / 10);
    }
    return worst;
  }
  [[nodiscard]] double recorded_share(double from, double to) const {
    const auto begin = static_cast<std::size_t>(from / kTick);
    const auto end = std::min(static_cast<std::size_t>(to / kTick), recorded.size());
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += recorded[i];
    return sum / (to - from);
  }

 private:
  void begin() {
    state.now_ns = kBegin;
    policy.begin(share);
    random_.seed(seed);
    left_in_step_ = next_step();
    on_ = true;
    policy.recorded(true, state);
    turn();
  }
  double next_step() { return step_seconds * std::exp(noise * std::normal_distribution<double>()(random_)); }

  void tick() {
    state.now_ns += kTickNs;
    const double time = now();
    const bool runs = time >= idle_before;
    const double rate = runs ? launches_per_second(time - idle_before) : 0;
    const double slower = on_ ? rate * cost_us(time) * 1e-6 : 0;
    const double progress = kTick / (1 + slower);
    const double collectives = policy.level() == record::kDetailOff ? 0 : collectives_cost * kTick;
    state.cost_ns += static_cast<std::uint64_t>(collectives * 1e9);
    if (runs) {
      lost.push_back(kTick - progress + collectives);
      recorded.push_back(on_ ? kTick : 0);
    }
    if (on_) pending_ += rate * progress;
    if (on_) state.ring_drops += drops_a_tick;
    while (pending_ >= kBuffer) hand_over(kBuffer);
    bool ended = false;
    if (step_seconds > 0 && runs && (left_in_step_ -= progress) <= 0) {
      left_in_step_ += next_step();
      ++state.steps;
      policy.step_ended(state.now_ns);
      ended = true;
    }
    if (state.now_ns >= due_ns_ || (ended && policy.waits_for_steps())) turn();
  }

  void hand_over(double records) {
    const double base = records * base_us * 1e3;
    state.kernels += static_cast<std::uint64_t>(records);
    state.base_ns += static_cast<std::uint64_t>(base);
    state.cost_ns += static_cast<std::uint64_t>(base * factor_);
    pending_ -= records;
  }

  void turn() {
    state.cost_ns += kTurnCostNs;
    if (state.now_ns >= flush_due_ns_) {
      flush_due_ns_ = state.now_ns + kFlushNs;
      if (!on_ && pending_ > 0) hand_over(pending_);
      policy.flushed(state);
      factor_ = policy.cost_factor();
    }
    const record::Detail before = policy.level();
    const bool on = policy.decide(state, false) == RecordingPolicy::Record::kAll;
    changes += policy.level() != before ? 1 : 0;
    if (on != on_) policy.recorded(on_ = on, state);
    due_ns_ = std::min(flush_due_ns_, policy.due_ns(state.now_ns));
  }

  std::mt19937_64 random_;
  double left_in_step_ = 0;
  double pending_ = 0;  // records that CUPTI still holds
  double factor_ = OwnCost::kUnmeasured;
  bool on_ = false;
  std::uint64_t flush_due_ns_ = 0;
  std::uint64_t due_ns_ = 0;
};

}  // namespace trimtab::inject::cupti
