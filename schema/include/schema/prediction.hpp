#pragma once

// What the cost model says of a plan. Document: "prediction" of search and evaluate. Plain values; times in
// milliseconds as in the document.

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "schema/plan.hpp"

namespace trimtab {

struct StageMemory {
  Bytes states = 0;       // parameters, gradients, optimizer
  Bytes activations = 0;  // all microbatches in flight
  Bytes recompute_peak = 0;
  Bytes reserved = 0;  // working memory, allocator reserve, per-process constant
  Bytes working = 0;   // the part of `reserved` that operators hold while they run
};

// Where the time of one stage, or of one of its ranks, goes in a step; ms. They add up to the step.
struct StepTerms {
  double computation_ms = 0;  // operators' passes with their own tensor-parallel collectives, and the optimizer
  double collectives_ms = 0;  // waiting for changes of layout inside the stage, and for what sub-batches reduce
  double gradients_ms = 0;    // waiting for sums of gradients, and for what is sharded
  double transfers_ms = 0;    // waiting for what another stage sends: for that stage, or for the wire
  double idle_ms = 0;         // the rest
  // Of idle_ms, and in no sum, as predicted: the host has not issued yet what comes next. Measured: api::Terms.
  double launching_ms = 0;

  [[nodiscard]] double total_ms() const {
    return computation_ms + collectives_ms + gradients_ms + transfers_ms + idle_ms;
  }
  StepTerms& operator+=(const StepTerms& other) {
    computation_ms += other.computation_ms;
    collectives_ms += other.collectives_ms;
    gradients_ms += other.gradients_ms;
    transfers_ms += other.transfers_ms;
    idle_ms += other.idle_ms;
    launching_ms += other.launching_ms;
    return *this;
  }
  [[nodiscard]] StepTerms operator*(double factor) const {
    return {computation_ms * factor, collectives_ms * factor, gradients_ms * factor,
            transfers_ms * factor,   idle_ms * factor,        launching_ms * factor};
  }
  bool operator==(const StepTerms&) const = default;
};

struct StagePrediction {
  // Per microbatch.
  double forward_ms = 0;
  double backward_ms = 0;  // without recompute
  double recompute_ms = 0;
  double exposed_communication_ms = 0;
  // Per iteration.
  double gradient_sync_ms = 0;  // exposed
  double optimizer_ms = 0;
  double bubble_ms = 0;
  StepTerms terms;  // the same as a rank measures it; all 0 where a model does not say
  Bytes memory_bytes = 0;
  StageMemory memory;
};

struct Bottleneck {
  std::int32_t stage = 0;
  std::string resource;  // "computation", "communication", "launches" (the host's) or "memory"
};

// Of communication, in ms.
struct CommunicationShares {
  double collectives = 0;
  double gradients = 0;
  double transfers = 0;
};

// The reason of a plan without a price.
inline constexpr std::string_view kNotPriced = "not priced";

// A plan without a price, because a cost of time is missing, takes for ever: no comparison of times prefers it. Memory
// is told all the same.
struct Prediction {
  double iteration_ms = 0;     // infinite = not priced
  double interval_low_ms = 0;  // 95 %
  double interval_high_ms = 0;
  // What of iteration_ms the critical path spends computing and communicating; the rest is fixed per step.
  double computation_share_ms = 0;
  double communication_share_ms = 0;
  CommunicationShares communication_shares;  // by class, parts of that; all 0 where a model does not say
  // What of iteration_ms scales with the slowdown of overlap beyond 1, a part of the above; and what with the busiest
  // stage's idle time, with which other stages' parts of the above scale, too. 0 where a model does not say.
  double overlap_share_ms = 0;
  double bubble_share_ms = 0;
  double launch_share_ms = 0;  // of iteration_ms, in none of the above: hosts issue passes, and their devices wait
  bool feasible = true;
  std::string infeasible_reason;  // which stage, which resource, by how much; kNotPriced; empty when feasible
  std::vector<StagePrediction> stages;
  Bottleneck bottleneck;
  std::vector<std::string> missing_costs;    // what is not priced for want of them
  std::vector<std::string> estimated_costs;  // priced by estimates that were asked for

  [[nodiscard]] bool priced() const { return std::isfinite(iteration_ms); }
  // Takes every time away, and says so: feasible is false for the reason kNotPriced.
  void take_price_away();
};

[[nodiscard]] std::string to_json(const Prediction& prediction);

struct RankedPlan {
  Plan plan;
  Prediction prediction;
};

struct SearchResult {
  std::string strategy;
  std::string cost_model;
  std::string space;
  std::uint64_t seed = 0;
  double seconds = 0;  // filled in by the caller, who has a clock
  std::uint64_t evaluations = 0;
  std::string stopped;  // "converged", "budget", "cancelled", "exhausted", "too_large"
  double lower_bound_ms = 0;
  bool proven = false;
  std::vector<RankedPlan> plans;  // best first
};

[[nodiscard]] std::string to_json(const SearchResult& result);

}  // namespace trimtab
