#pragma once

// Actions on a computation and a communication stream, played through event by event: the referee for closed forms and
// the source of timelines. Pure.

#include <cstdint>
#include <span>

#include "solvers/overlap_slowdown.hpp"

namespace trimtab::tuner {

struct StreamAction {
  bool communication = false;  // which stream
  double length = 0;           // alone, any unit of time, not negative
  std::int32_t after = -1;     // an earlier action that must have ended, of either stream; -1: none
};

struct StreamSpan {
  double begin = 0, end = 0;
};

// When the last action ends. Each stream runs its actions in the order of the list, one at a time, each as soon as what
// it is after has ended. While both run, each is slower by its slowdown. Fills in `spans`, one for each action.
// REQUIRES: `after` names an earlier action, spans.size() == actions.size().
double run_two_streams(std::span<const StreamAction> actions, const OverlapSlowdown& slowdown,
                       std::span<StreamSpan> spans);

}  // namespace trimtab::tuner
