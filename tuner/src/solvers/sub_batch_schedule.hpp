#pragma once

// A microbatch in two sub-batches, so that one computes while the other communicates (Oases, section IV and algorithm
// 1). A pass is a row of rounds; in each, both sub-batches compute and then communicate:
//
//   computation     | 0 computes | 1 computes   | 0 computes the next round | ...
//   communication                | 0's          | 1's                       | ...
//
// A computation and the communication beside it begin together, so that the price is a sum over rounds, exact with
// overlap slowdowns too; run_two_streams() on stream_actions() is the same schedule event by event. Pure.
//
// Blocks are what lies between two communications: a block computes, then communicates. All of a block is for one
// sub-batch, in one unit of time.

#include <cstdint>
#include <span>
#include <vector>

#include "solvers/overlap_slowdown.hpp"

namespace trimtab::tuner {

// Actions on a computation and a communication stream, played through event by event: the referee for closed forms and
// the source of timelines. Pure.
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

// Computing for `computation` beside `communication`, both begun together: each slower by its slowdown while both run,
// then the rest alone. Without slowdowns the longer of the two.
[[nodiscard]] inline double overlapped(double computation, double communication, const OverlapSlowdown& slowdown) {
  const double computing = computation * slowdown.computation;
  const double communicating = communication * slowdown.communication;
  if (computing <= communicating) return computing + (communication - computing / slowdown.communication);
  return communicating + (computation - communicating / slowdown.computation);
}

struct Block {
  double forward = 0;
  double backward = 0;   // without recompute
  double recompute = 0;  // 0 where the block is not recomputed
  double forward_communication = 0;
  double backward_communication = 0;
  // Of the whole microbatch; everything waits for them: a change of layout between the block before and this one.
  double gather_forward = 0;
  double gather_backward = 0;
  bool begins_unit = true;  // of recompute: a unit's first input is kept, without recompute_after_communication
};

enum class RoundPass : std::uint8_t { kForward, kRecompute, kBackward };

struct Round {
  double computation = 0;    // of one sub-batch
  double communication = 0;  // of one sub-batch, after it
  double gather = 0;         // before the round, blocked
  bool blocked = false;      // begins only when all before it has ended, the last communication too
  double recompute = 0;      // part of `computation`, at its beginning
  std::int32_t block = 0;
  RoundPass pass = RoundPass::kForward;
};

struct SubBatchSchedule {
  // Recompute and backward are one pass; else the recompute of each unit is a pass of its own between two barriers.
  bool cross_pass = true;
  // Each block's input is kept, after the communication before it, so that recompute communicates nothing.
  bool recompute_after_communication = true;
};

// The rounds of one forward and one backward pass, replacing what `rounds` holds. A block whose gather_forward or
// gather_backward is positive blocks the round on its far side.
void forward_rounds(std::span<const Block> blocks, std::vector<Round>& rounds);
void backward_rounds(std::span<const Block> blocks, const SubBatchSchedule& schedule, std::vector<Round>& rounds);

// How long the rounds take in two sub-batches.
[[nodiscard]] double rounds_time(std::span<const Round> rounds, const OverlapSlowdown& slowdown);

// The most that recompute has brought back at once in these backward rounds, where `bytes` by block is what one
// sub-batch's recompute of it brings back and its backward gives up when it ends.
[[nodiscard]] double recomputed_at_once(std::span<const Round> rounds, std::span<const double> bytes);

// The rounds as actions, for any number of sub-batches; one is the plain schedule, in which nothing overlaps.
struct RoundAction {
  std::int32_t round = 0;
  std::int32_t sub_batch = -1;  // -1: a gather
};
struct StreamActions {
  std::vector<StreamAction> actions;
  std::vector<RoundAction> origins;  // by action
};
[[nodiscard]] StreamActions stream_actions(std::span<const Round> rounds, std::int32_t sub_batches = 2);

}  // namespace trimtab::tuner
