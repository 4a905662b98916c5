#pragma once

// Prices candidates in the inner loop of a search: stages and transfers are memoized, the pipeline is simulated
// exactly, and once everything has been seen a price allocates nothing. One per search; not thread-safe.

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "candidate.hpp"
#include "pipeline.hpp"
#include "stage_cost.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {

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
  StageTimes times;
  double excess_bytes = 0;
  double memory_bytes = 0;
  double limit_bytes = 0;
  bool priced = false;  // no cost is missing
  std::vector<Range> recompute;
};

class Evaluator {
 public:
  // Both must outlive this.
  Evaluator(const CostModel& cost_model, const PlanSpace& space);

  Score price(const Candidate& candidate);
  // A stage of the candidate, as price() takes it. Valid until the next call of any other method.
  const StagePrice& stage(const Candidate& candidate, std::size_t stage);
  [[nodiscard]] std::uint64_t evaluations() const { return evaluations_; }

  // A stage whose recomputed operators are given, not chosen; not memoized.
  [[nodiscard]] StagePrice price_stage(const StageShape& shape, std::int32_t first_device,
                                       const std::vector<Range>& recompute);
  // The time of a whole step from its stages. `transfers` as in transfer().
  double simulate_step(const PipelineStage* stages, std::int32_t count, std::int32_t microbatches);
  double transfer(std::int32_t boundary, std::int32_t microbatch, std::int32_t first_device, std::int32_t from,
                  std::int32_t to);  // ms; infinite where a cost is missing
  [[nodiscard]] StageShape shape_of(const Candidate& candidate, std::size_t stage, std::int32_t first_device) const;
  [[nodiscard]] double memory_limit(std::int32_t first_device, std::int32_t devices) const;
  [[nodiscard]] Plan plan(const Candidate& candidate);
  [[nodiscard]] const CostTable::Tables& tables() const { return *tables_; }
  [[nodiscard]] const Calibration& calibration() const { return *calibration_; }
  [[nodiscard]] const PlanSpace& space() const { return *space_; }

 private:
  struct StageKey {
    std::int32_t begin, end, first_device, devices, microbatch, in_flight, further;
    bool operator==(const StageKey&) const = default;
  };
  struct TransferKey {
    std::int32_t boundary, microbatch, first_device, from, to;
    bool operator==(const TransferKey&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const StageKey& key) const;
    std::size_t operator()(const TransferKey& key) const;
  };

  const StagePrice& stage_at(const Candidate& candidate, std::size_t stage, std::int32_t first_device);
  [[nodiscard]] StagePrice choose(const StageShape& shape, std::int32_t first_device, std::int32_t further);
  [[nodiscard]] bool complete(const StageShape& shape) const;
  [[nodiscard]] Placement placement(std::int32_t first_device, std::int32_t devices) const;

  const CostTable::Tables* tables_;
  const Calibration* calibration_;
  const PlanSpace* space_;
  std::vector<std::int32_t> node_of_;  // by device
  std::unordered_map<StageKey, StagePrice, KeyHash> stages_;
  std::unordered_map<TransferKey, double, KeyHash> transfers_;
  std::vector<PipelineStage> pipeline_;
  PipelineScratch scratch_;
  RecomputeFlags flags_;
  std::uint64_t evaluations_ = 0;
};

}  // namespace trimtab::tuner
