#pragma once

// Floors under the time of the last stages of a 1F1B pipeline, one stage put before the others at a time. Pure.
//
// A stage runs w = S - s - 1 forwards ahead of its backwards, in a fixed order, and what it sends down comes back no
// sooner than a microbatch alone takes through the later stages. So the step is at least as long as any path through
// that order that now and then leaves the stage with a forward and comes back for the same microbatch's backward: it
// gains the trip and skips what the stage runs meanwhile. The paths counted here: leaving at the first microbatch, at
// the last, at both, and as often as the order allows. A microbatch in halves leaves with the first of them at the
// latest stage and with the second at the others: no trip is shorter than that of one half there and the whole back.

#include <cstdint>

namespace trimtab::tuner {

// Of one microbatch; ms. No way to run the stage takes less in any of them.
struct StageFloor {
  double forward = 0;   // its waits included; of a microbatch in halves, both
  double backward = 0;  // recompute and waits included
  double both = 0;      // at least the sum of the two
  double last = 0;      // the last backward
  double tail = 0;      // from the begin of the last backward to the end of the stage's step
  double first = 0;     // until something of a microbatch has left the stage: half of it, where the warm-up is sliced
};

// Between a stage and the next.
struct TransferFloor {
  double first = 0;  // of what leaves first: half a microbatch, where the warm-up is sliced
  double whole = 0;
  [[nodiscard]] double both_ways() const { return first + whole; }
};

// From the arrival of the first microbatch at the first of these stages, ms.
struct SuffixFloor {
  double trip = 0;  // until a microbatch that meets no other has come back out
  double last = 0;  // until the last backward of that first stage has ended
  double end = 0;   // until all of these stages have ended their step

  [[nodiscard]] bool no_more_than(const SuffixFloor& other) const {
    return trip <= other.trip && last <= other.last && end <= other.end;
  }
};

// `ahead` is w, not above microbatches - 1; `trip` the time from the end of a forward until its gradient has arrived.
[[nodiscard]] double detour_ms(const StageFloor& stage, double trip, std::int32_t ahead, std::int32_t microbatches);

// The last stage alone.
[[nodiscard]] SuffixFloor last_stage(const StageFloor& stage, std::int32_t microbatches);
// `transfer` leads to the next stage, `after` is that stage and those behind it, `later` how many they are.
[[nodiscard]] SuffixFloor put_before(const StageFloor& stage, const TransferFloor& transfer, const SuffixFloor& after,
                                     std::int32_t later, std::int32_t microbatches);

}  // namespace trimtab::tuner
