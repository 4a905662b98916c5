#pragma once

// What a job takes over of near hardware (tuner/near_costs.hpp): what survives the coordinator, and what is told of it.
// Plain values.

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/near_costs.hpp"

namespace trimtab::coordinator {

// Known hardware whose costs stand for those that a job's plans need and nobody has measured.
struct NearFound {
  std::string fingerprint;  // hash; empty = none
  std::string differences;  // of the job's hardware from it
  double doubt = 0;         // Distance::doubt()
};

// Of the costs that were counted (CostsCounted).
struct NearCounted {
  NearFound found;
  // A few costs are measured first: the requests are for those, and so many of them are not known yet.
  std::int32_t probes_missing = 0;
  bool probing = false;
  // Once they are not waited for any more.
  std::vector<tuner::NearFinding> findings;
  std::int32_t taken_over = 0;  // costs that plans need and that are not measured
};

struct NearState {
  // The probes have been measured, or could not be: what they say decides.
  bool decided = false;
  bool counted = false;  // what is left to measure is known, too
  std::string hardware;  // whose costs are taken over: the job's, as its agents name it
  NearFound found;
  std::int32_t probes = 0;         // costs that were measured first
  std::int32_t requests_done = 0;  // of the job's profiling before the coordinator went on with it
  std::int32_t taken_over = 0;
  std::vector<tuner::NearFinding> findings;
};

// "costs are taken over from fingerprint F (kernel 6.5 instead of 6.1): computation as it was (± 4 %, 7 probes), ...".
[[nodiscard]] std::string describe(const NearState& near);
// What the cost database tells of a fingerprint (kTakenOverFact); empty = nothing is taken over.
[[nodiscard]] std::string fact_of(const NearState& near);

}  // namespace trimtab::coordinator
