#pragma once

// What a cost model says of one stage of a candidate. Plain values.

#include <vector>

#include "schema/plan.hpp"

namespace trimtab::tuner {

// How the passes of one microbatch differ between a stage's replicas. All 0: nobody waits.
struct ReplicaSpread {
  double variance = 0;  // ms^2, of what differs from microbatch to microbatch
  double constant = 0;  // ms, standard deviation of what each device always has
  double slowest = 0;   // expected maximum over the replicas, in standard deviations
};

struct StagePrice {
  // Milliseconds per microbatch: computing, and what the stage waits for its own collectives and transfers.
  double forward = 0;
  double backward = 0;  // without recompute
  double recompute = 0;
  double least_recompute = 0;  // no choice of operators that fits recomputes for less
  double communication = 0;
  double forward_wait = 0;  // of communication, what a forward pass waits for inside of the stage
  double backward_wait = 0;
  // Milliseconds per step.
  double sync = 0;  // exposed
  double optimizer = 0;
  double last_backward = 0;  // of the last microbatch, all that slows it down included
  double tail = 0;           // from the begin of the last backward to the end of the stage's step
  double after = 0;          // of the tail, what follows the reduction of tied parameters: the optimizer
  ReplicaSpread spread;      // what its replicas' passes of a microbatch differ by
  double step_ms = 0;        // what this stage alone bounds the iteration by: ranks bottlenecks

  double memory_bytes = 0;
  double limit_bytes = 0;   // 0 = unlimited
  double excess_bytes = 0;  // over the limit
  bool priced = false;      // no cost is missing; all else is 0 otherwise
  std::vector<Range> recompute_ranges;
};

}  // namespace trimtab::tuner
