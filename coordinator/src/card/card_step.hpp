#pragma once

// What the card is told of one step of one rank. Times are the rank's own, in nanoseconds.

#include <cstdint>
#include <optional>

namespace trimtab::coordinator {

// Where the rank's step went, by the host clock of its training thread (docs/protocols.md, the frame "step").
struct CardParts {
  std::int64_t data_ns = 0;       // waiting for the next batch
  std::int64_t forward_ns = 0;    // what it computed itself, exposed communication taken out
  std::int64_t backward_ns = 0;   // likewise; recompute_ns is inside
  std::int64_t recompute_ns = 0;  // forward passes of checkpointed modules inside backward
  std::int64_t optimizer_ns = 0;
  std::int64_t communication_ns = 0;  // exposed waiting in collectives
  std::int64_t aside_ns = 0;          // evaluation and checkpoints within the step, which the card leaves out
  // Outside of data, communication and aside: ready to run, but without a CPU. -1 = not told.
  std::int64_t stolen_ns = -1;
};

struct CardStep {
  std::int64_t step = 0;
  std::int64_t wall_ns = 0;
  std::int64_t cpu_ns = 0;  // of the whole process; 0 = not told
  std::optional<CardParts> parts;
  std::int64_t microbatches = 0;  // 0 = not told, likewise count and tokens
  std::int64_t count = 0;         // samples that this rank took
  std::int64_t tokens = 0;
  // What the process has prepared so far (a compilation, a larger pool): a step in which it grows counts for nothing.
  std::int64_t preparations = 0;
  std::int64_t peak_bytes = 0;
};

}  // namespace trimtab::coordinator
