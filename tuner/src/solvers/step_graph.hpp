#pragma once

// A step whose passes do not simply follow the recurrences of pipeline.hpp, as a graph of passes and transfers: each
// begins when everything before it has ended. Pure.
//
// Interleaved 1F1B (Narayanan et al., SC 2021, section 2.2): S stages go round p seats (groups of devices), stage s on
// seat s mod p, S / p of them on each. A seat takes passes in the order of Megatron: microbatches in groups of p, each
// group through all of the seat's stages; seat r forwards min(mS/p, 2(p - r - 1) + S - p) before its first backward.
//
// Transfers that meet (Megatron): sender and receiver go on together when a transfer has ended; an activation on and a
// gradient back between the same two passes are one exchange, and hosts wait for it, too. Elsewhere a transfer begins
// when its sender's pass ends, and no host waits.

#include <span>

#include "solvers/pipeline.hpp"

namespace trimtab::tuner {

struct SeatPass {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  bool forward = true;
  bool operator==(const SeatPass&) const = default;
};

// A seat's passes in order. REQUIRES: for kInterleaved, seats divides stages and microbatches; else seats == stages.
[[nodiscard]] std::vector<SeatPass> seat_passes(ScheduleKind kind, std::int32_t stages, std::int32_t seats,
                                                std::int32_t seat, std::int32_t microbatches);

struct StepSchedule {
  ScheduleKind kind = ScheduleKind::k1F1B;
  std::int32_t seats = 1;
  std::int32_t microbatches = 1;
  bool transfers_meet = false;
};

struct StepNode {
  enum class Kind : std::uint8_t { kForward, kBackward, kTransfer };
  Kind kind = Kind::kForward;
  std::int32_t stage = 0;  // of a transfer, the earlier of the two
  std::int32_t microbatch = 0;
  double begin = 0;
  double end = 0;
  std::int32_t cause = -1;        // the node that it waited for last; -1: none, or its host alone
  HeldUp held_up = HeldUp::kNot;  // of a pass, by its host
  double issuing = 0;             // for so long
};

struct StepGraph {
  std::vector<StepNode> nodes;
  std::vector<std::int32_t> forwards, backwards;  // nodes by stage * microbatches + microbatch
};

// Forwards of a step that is kept as a graph: some hundreds of MB.
inline constexpr std::int64_t kMostGraphForwards = 1 << 20;

// REQUIRES: transfers meet in 1F1B and GPipe alone; stages times microbatches at most kMostGraphForwards.
[[nodiscard]] StepGraph step_graph(std::span<const PipelineStage> stages, const StepSchedule& schedule);

// How many microbatches of each of a seat's stages are in flight when they hold the most bytes; `bytes` by stage are of
// one microbatch. By stage, 0 for other seats' stages.
[[nodiscard]] std::vector<std::int32_t> held_at_once(const std::vector<SeatPass>& passes,
                                                     std::span<const double> bytes);

}  // namespace trimtab::tuner
