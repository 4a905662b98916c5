#pragma once

// The inner loop of a search, behind one interface for every cost model: candidates in, scores and stage prices out.
// One per search; not thread-safe. Stages are memoized; once everything has been seen a price allocates nothing.

#include <functional>
#include <limits>

#include "plan/candidate.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

// What a cost model says of one stage of a candidate. Plain values.

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
  // Of the host, to issue the passes; 0 where nobody knows.
  double forward_launch = 0;
  double backward_launch = 0;  // recompute included
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

// What an evaluator remembers prices by: the numbers that a price depends on, one after the other. Plain values.
using LookupKey = std::vector<std::int32_t>;

struct LookupKeyHash {
  std::size_t operator()(const LookupKey& key) const {
    std::uint64_t hash = 0x2545f4914f6cdd1dU;
    for (const std::int32_t value : key) {
      hash = (hash ^ static_cast<std::uint32_t>(value)) * 0x9e3779b97f4a7c15U;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

inline void append(const Split& split, LookupKey& key) {
  for (const std::int32_t value :
       {split.dp, split.tp, static_cast<std::int32_t>(split.sharded), split.sharded_degree}) {
    key.push_back(value);
  }
}

// How many, and then each.
inline void append(const std::vector<Range>& ranges, LookupKey& key) {
  key.push_back(static_cast<std::int32_t>(ranges.size()));
  for (const Range& range : ranges) {
    key.push_back(range.begin);
    key.push_back(range.end);
  }
}

class Bounds;         // pricing/bounds.hpp
class OwnSearch;      // search/strategy.hpp
class StageChains;    // pricing/stage_chain.hpp
class StagePricers;   // pricing/stage_pricer.hpp
class StageSolver;    // pricing/stage_pricer.hpp
class SwitchChooser;  // pricing/stage_pricer.hpp

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

class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Counts as one evaluation. REQUIRES: the space has the candidate.
  virtual Score price(const Candidate& candidate) = 0;
  // A stage of the candidate, as price() takes it. Valid until the next call of a method that is not const.
  virtual const StagePrice& stage(const Candidate& candidate, std::size_t stage) = 0;
  // Whether that depends on no other stage but by their number, who has which devices, and the split that follows it.
  [[nodiscard]] virtual bool prices_stages_apart() const { return false; }
  // Recompute ranges spelled out.
  virtual Plan plan(const Candidate& candidate) = 0;
  // Why the candidate does not fit: which stage, by how much, and what would make it fit. Empty where it fits.
  virtual std::string excess_text(const Candidate& candidate) = 0;
  // What each operator computes over a whole step on one device of a segment of this split: prefix sums, one more than
  // operators, without recompute and communication; empty where a cost is missing. Valid as long as the evaluator.
  virtual std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) = 0;
  // Drops what is memoized.
  virtual void forget() {}
  // Asked inside of calls that may take long; true ends them with the best so far. Nothing asks before this is called.
  virtual void stop_when(std::function<bool()> /*stop*/) {}

  // What a strategy may need beyond prices, stages and plans. Null where the model has none; the evaluator's own.
  virtual StagePricers* stage_pricers() { return nullptr; }
  virtual SwitchChooser* switch_chooser() { return nullptr; }
  virtual StageSolver* stage_solver() { return nullptr; }
  virtual StageChains* stage_chains() { return nullptr; }
  virtual Bounds* bounds() { return nullptr; }
  // The search that the model's own authors have for it.
  virtual OwnSearch* own_search() { return nullptr; }

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
