#pragma once

// How far a step's predicted time may be off: the costs' standard errors weighted by how often each cost stands on the
// critical path, and what calibration leaves open. Pure.

#include "native/step/recorded_step.hpp"

namespace trimtab::tuner {

// What of the step is computing, communicating and hosts' issuing; their sum is the step's time. All are the exact
// derivatives of the step's time by the logarithm of the term's factor. Copies to and from hosts are communication of
// no class.
struct Shares {
  double computation_ms = 0;
  double communication_ms = 0;
  double issuing_ms = 0;
  CommunicationShares by_class;  // of communication
  double overlap_ms = 0;         // of slowdowns beyond 1
  double bubble_ms = 0;          // of the busiest stage
  double step_ms = 0;            // with the factor on that
};

// A step's bubble. The step without transfers and its path are filled in where a factor stretches it.
struct Bubble {
  double ms = 0;
  double stretch = 0;  // of it, beyond 1
  BusiestSeat busiest;
  RecordedStep step;
  CriticalPath path;
};
// Leaves `priced` as it was.
[[nodiscard]] Bubble bubble_of(const Calibration& calibration, PricedPlan& priced);

[[nodiscard]] Shares critical_shares(const Calibration& calibration, const PricedPlan& priced, const RecordedStep& step,
                                     const CriticalPath& path, const Bubble& bubble);

// Standard deviation of the step's time.
[[nodiscard]] double step_sigma(const CostTable::Tables& tables, const Calibration& calibration,
                                const PricedPlan& priced, const CriticalPath& path, const Shares& shares,
                                double iteration_ms);

}  // namespace trimtab::tuner
