#pragma once

// What one layer's switches cost between its neighbours where segments are synchronized. A boundary between layers i-1
// and i has 16 states: of layer i-1 the backward segment i reads whether it gathers, prefetches and brings a hidden
// state back (8 kinds); of layer i the segments of i-1 read `lazy_prefetch` alone. Levels are counted after the release
// of the layer before (it is the first thing that a forward segment does), so that a forward segment does not depend on
// it at all. From whole simulations of single segments.

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "solvers/h3t/problem.hpp"

namespace trimtab::tuner::h3t {

inline constexpr std::int32_t kStates = 16;

// One layer's switches, between a state in front of it and one behind.
struct Transition {
  Ticks ticks = 0;       // both segments
  Ticks write_back = 0;  // of updated parameters
  Bytes peak = 0;        // of both segments, above the level in front
  Bytes kept = 0;        // between the passes: raises the level
  Bytes resident = 0;    // raises every level of the step
  Bytes retained = 0;    // of each further microbatch in flight
  Bytes host = 0;        // beyond the layer's own host_bytes
  std::uint8_t next = 0;
  std::uint8_t code = 0;  // of LayerSwitches
};

// By state in front; states that cannot be have none.
using Transitions = std::array<std::vector<Transition>, kStates>;

// Transitions of one microbatch, remembered: layers that come again between the same neighbours are not simulated
// again. One per thread.
class TransitionTable {
 public:
  using Shared = std::shared_ptr<const Transitions>;

  // Equal profiles have equal numbers; none is -1.
  [[nodiscard]] std::int32_t number_of(const LayerProfile& layer);
  // Of the layer `own` between two others, by their numbers.
  [[nodiscard]] Shared between(std::int32_t before, std::int32_t own, std::int32_t after, const Problem& problem);
  // Layers between neighbours that were simulated.
  [[nodiscard]] std::uint64_t simulated() const { return simulated_; }

 private:
  struct Hash {
    std::size_t operator()(const LayerProfile& layer) const;
  };
  [[nodiscard]] const LayerProfile* layer(std::int32_t number) const {
    return number < 0 ? nullptr : layers_[static_cast<std::size_t>(number)];
  }

  std::unordered_map<LayerProfile, std::int32_t, Hash> numbers_;
  std::vector<const LayerProfile*> layers_;  // of numbers_, which does not move them
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, Fabric, std::uint8_t>, Shared> known_;
  std::uint64_t simulated_ = 0;
};

}  // namespace trimtab::tuner::h3t
