#pragma once

// What calibration makes of a step's bubble: what the busiest stage idles in it where nothing takes time to send, the
// filling and draining of the pipeline and the waits for uneven stages. It scales with a factor; what that stage does
// stands, and so does what a step takes longer for its transfers. A step of one stage has no bubble. Pure.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "solvers/pipeline.hpp"

namespace trimtab::tuner {

struct BusiestSeat {
  std::int32_t seat = 0;
  double ms = 0;  // of a step
};

// Stage s runs on seat s mod `seats`: its own, but in the interleaved schedule.
[[nodiscard]] inline BusiestSeat busiest_seat(const std::vector<PipelineStage>& stages, std::int32_t seats,
                                              std::int32_t microbatches) {
  BusiestSeat busiest;
  for (std::int32_t seat = 0; seat < seats; ++seat) {
    double ms = 0;
    for (std::size_t s = static_cast<std::size_t>(seat); s < stages.size(); s += static_cast<std::size_t>(seats)) {
      ms += microbatches * stages[s].forward + (microbatches - 1) * stages[s].backward + stages[s].tail;
    }
    if (ms > busiest.ms) busiest = {seat, ms};
  }
  return busiest;
}

// Of a step that takes so long without transfers.
[[nodiscard]] inline double bubble_ms(const BusiestSeat& busiest, double sent_at_once_ms) {
  return std::max(0.0, sent_at_once_ms - busiest.ms);
}

inline void send_at_once(std::vector<PipelineStage>& stages, std::vector<HalfPass>& halves) {
  for (PipelineStage& stage : stages) stage.transfer = 0;
  for (HalfPass& half : halves) half.transfer = 0;
}

}  // namespace trimtab::tuner
