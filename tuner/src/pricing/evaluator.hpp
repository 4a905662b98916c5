#pragma once

// The inner loop of a search, behind one interface for every cost model: candidates in, scores and stage prices out.
// One per search; not thread-safe. Stages are memoized; once everything has been seen a price allocates nothing.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "native/stage/stragglers.hpp"
#include "plan/candidate.hpp"
#include "pricing/stage_chain.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

namespace unified {
class StagePricer;  // pricing/stage_pricer.hpp
}

// How good a candidate is: one that fits by its time, before one that does not by its excess, before one with costs
// that are missing.
struct Score {
  bool priced = false;
  double excess_bytes = 0;  // of the worst stage
  double ms = std::numeric_limits<double>::infinity();

  [[nodiscard]] bool fits() const { return priced && excess_bytes <= 0; }
  [[nodiscard]] bool better_than(const Score& other) const {
    if (priced != other.priced) return priced;
    if (excess_bytes != other.excess_bytes) return excess_bytes < other.excess_bytes;
    return ms < other.ms;
  }
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

struct BoundRequest {
  double best_ms = std::numeric_limits<double>::infinity();  // what some plan takes: no bound is above it
  bool idle_devices = false;                                 // plans may leave the last devices idle
  double effort = 1;                                         // share of the work that a bound may take; 0: very little
};

struct PlansNearBound {
  double bound_ms = 0;           // no plan of the space takes less; 0 = unknown
  std::vector<Candidate> plans;  // that such a bound comes from, the most promising first
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Counts as one evaluation. REQUIRES: the space has the candidate.
  virtual Score price(const Candidate& candidate) = 0;
  // A stage of the candidate, as price() takes it. Valid until the next call of a method that is not const.
  virtual const StagePrice& stage(const Candidate& candidate, std::size_t stage) = 0;
  // Recompute ranges spelled out.
  virtual Plan plan(const Candidate& candidate) = 0;
  // Why the candidate does not fit: which stage, by how much, and what would make it fit. Empty where it fits.
  virtual std::string excess_text(const Candidate& candidate) = 0;
  // What each operator computes over a whole step on one device of a segment of this split: prefix sums, one more than
  // operators, without recompute and communication; empty where a cost is missing. Valid as long as the evaluator.
  virtual std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) = 0;
  // Stages for the partition solver of `unified`, for one microbatch size; null where the model has none of its own.
  // Must not outlive the evaluator.
  virtual std::unique_ptr<unified::StagePricer> stage_pricer(std::int32_t microbatch);
  // The same with times that no way to run a stage beats, for bounds; null where stage_pricer() is exact, or none is
  // known.
  virtual std::unique_ptr<unified::StagePricer> floor_pricer(std::int32_t microbatch);
  // A stage of the candidate with the memory switches that are best for its memory, its recompute among them (those of
  // least memory where none fit). Nothing where the space has no switches, its segments cut a layer, or a cost is
  // missing.
  virtual std::optional<CandidateStage> with_switches(const Candidate& /*candidate*/, std::size_t /*stage*/) {
    return std::nullopt;
  }
  // Ways to run a stage of the candidate that fit, each operator split in its own way, the most promising first. None
  // where the space has no mixed splits, or the model no program for them.
  virtual std::vector<CandidateStage> stage_proposals(const Candidate& /*candidate*/, std::size_t /*stage*/) {
    return {};
  }
  // One stage over all devices, for `oases`. REQUIRES: the space has the microbatch.
  virtual StageChain stage_chain(std::int32_t microbatch) { return computing_chain(*this, microbatch); }
  // No plan of the space takes less; 0 = unknown.
  [[nodiscard]] virtual double lower_bound_ms(const BoundRequest& /*request*/) { return 0; }
  // The same with plans near it; none where no bound knows plans.
  virtual PlansNearBound plans_near_bound(const BoundRequest& /*request*/) { return {}; }
  // Drops what is memoized.
  virtual void forget() {}
  // Asked inside of calls that may take long; true ends them with the best so far. Nothing asks before this is called.
  virtual void stop_when(std::function<bool()> /*stop*/) {}

  [[nodiscard]] const CostModel& cost_model() const { return *cost_model_; }
  [[nodiscard]] const PlanSpace& space() const { return *space_; }
  [[nodiscard]] const Model& model() const { return cost_model_->model(); }
  // Candidates priced, and what choices of memory switches have cost in the same measure.
  [[nodiscard]] std::uint64_t evaluations() const { return evaluations_; }

 protected:
  // Both must outlive this.
  Evaluator(const CostModel& cost_model, const PlanSpace& space) : cost_model_(&cost_model), space_(&space) {}
  Evaluator(const Evaluator&) = default;
  Evaluator& operator=(const Evaluator&) = default;
  void count(std::uint64_t evaluations = 1) { evaluations_ += evaluations; }

 private:
  const CostModel* cost_model_;
  const PlanSpace* space_;
  std::uint64_t evaluations_ = 0;
};

}  // namespace trimtab::tuner
