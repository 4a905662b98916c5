#pragma once

// How far a step's predicted time may be off: the costs' standard errors weighted by how often each cost stands on the
// critical path, and what calibration leaves open. Pure.

#include "recorded_step.hpp"

namespace trimtab::tuner {

// What of the critical path is computing and what is communicating; their sum is the step's time. Both are the exact
// derivatives of the step's time by the logarithm of the term's factor. Copies to and from hosts are communication of
// no class.
struct Shares {
  double computation_ms = 0;
  double communication_ms = 0;
  CommunicationShares by_class;  // of communication
};

[[nodiscard]] Shares critical_shares(const Calibration& calibration, const PricedPlan& priced, const RecordedStep& step,
                                     const CriticalPath& path);

// Standard deviation of the step's time.
[[nodiscard]] double step_sigma(const CostTable::Tables& tables, const Calibration& calibration,
                                const PricedPlan& priced, const CriticalPath& path, const Shares& shares,
                                double iteration_ms);

}  // namespace trimtab::tuner
