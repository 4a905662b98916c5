#pragma once

// A synchronized step as a shortest path. With segment synchronization on, a step's time is a sum over layers and its
// memory a running level, and what the segments of layer i share with their neighbours is little: a boundary between
// layers i-1 and i has 16 states. Of layer i-1 the backward segment i reads whether it gathers, prefetches and brings a
// hidden state back (8 kinds); of layer i the segments of i-1 read `lazy_prefetch` alone. Levels are counted after the
// release of the layer before (it is the first thing that a forward segment does), so that a forward segment does not
// depend on it at all. Built once from whole simulations of single segments; immutable.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "problem.hpp"

namespace trimtab::tuner::h3t {

inline constexpr std::int32_t kStates = 16;

// One layer's switches, between a state in front of it and one behind.
struct Transition {
  Ticks ticks = 0;       // both segments
  Ticks write_back = 0;  // of updated parameters
  Bytes peak = 0;        // of both segments, above the level in front
  Bytes kept = 0;        // between the passes: raises the level
  Bytes resident = 0;    // raises every level of the step
  Bytes host = 0;        // beyond the layer's own host_bytes
  std::uint8_t next = 0;
  std::uint8_t code = 0;  // of LayerSwitches
};

// By state in front; states that cannot be have none.
using Transitions = std::array<std::vector<Transition>, kStates>;

struct Start {
  Ticks ticks = 0;  // the first layer's parameters
  Bytes level = 0;
};

// Limits of what may still come, by boundary and state.
struct Future {
  Bytes peak = 0;           // over levels in front, without residents: at least
  Bytes peak_resident = 0;  // the same with the residents that come: at least
  Bytes resident = 0;       // that come: at least
  bool possible = false;
};

class StepProgram {
 public:
  explicit StepProgram(const Problem& problem);

  [[nodiscard]] std::int32_t layers() const { return static_cast<std::int32_t>(of_layer_.size()); }
  [[nodiscard]] const Transitions& of(std::int32_t layer) const { return *of_layer_[layer]; }
  // By lazy_prefetch of the first layer, which is its state.
  [[nodiscard]] const std::array<Start, 2>& starts() const { return starts_; }
  [[nodiscard]] const Future& future(std::int32_t boundary, std::int32_t state) const {
    return futures_[boundary][state];
  }
  [[nodiscard]] Bytes most_residents(std::int32_t boundary) const { return most_residents_[boundary]; }
  [[nodiscard]] Ticks optimizer(std::int32_t layer) const { return optimizer_[layer]; }
  [[nodiscard]] Ticks optimizer_sum() const { return optimizer_sum_; }
  [[nodiscard]] Bytes device_limit() const { return device_limit_; }
  // For hidden states alone; kUnlimited where all of them fit.
  [[nodiscard]] Bytes hidden_limit() const { return hidden_limit_; }
  [[nodiscard]] bool host_matters() const { return hidden_limit_ < kUnlimited; }

 private:
  void find_futures();

  std::vector<std::shared_ptr<const Transitions>> of_layer_;  // equal layers share
  std::array<Start, 2> starts_;
  std::vector<std::array<Future, kStates>> futures_;
  std::vector<Bytes> most_residents_;
  std::vector<Ticks> optimizer_;
  Ticks optimizer_sum_ = 0;
  Bytes device_limit_ = kUnlimited;
  Bytes hidden_limit_ = kUnlimited;
};

[[nodiscard]] std::uint8_t code_of(const LayerSwitches& switches);
[[nodiscard]] LayerSwitches switches_of(std::uint8_t code);

}  // namespace trimtab::tuner::h3t
