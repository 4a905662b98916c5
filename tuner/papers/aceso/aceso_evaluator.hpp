#pragma once

// The aceso model's evaluator: uniform stages from prefix sums, others operator by operator, both memoized; the
// iteration by the published formula. One per search; not thread-safe.

#include <optional>
#include <unordered_map>
#include <vector>

#include "papers/aceso/stage_memo.hpp"
#include "papers/aceso/uniform_stage.hpp"
#include "papers/aceso_cost_model.hpp"
#include "plan/lookup_key.hpp"
#include "pricing/evaluator.hpp"
#include "pricing/stage_pricer.hpp"

namespace trimtab::tuner::aceso {

class AcesoEvaluator final : public Evaluator, public StagePricers {
 public:
  AcesoEvaluator(const AcesoCostModel& cost_model, const PlanSpace& space);

  Score price(const Candidate& candidate) override;
  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override;
  Plan plan(const Candidate& candidate) override;
  std::string excess_text(const Candidate& candidate) override;
  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override;

  StagePricers* stage_pricers() override { return this; }
  std::unique_ptr<StagePricer> stage_pricer(std::int32_t microbatch) override;
  std::unique_ptr<StagePricer> floor_pricer(std::int32_t microbatch) override;

  // price() without the memo: every stage is derived anew. For benchmarks and tests.
  Score price_from_scratch(const Candidate& candidate);

  [[nodiscard]] const Tables& tables() const { return tables_; }
  [[nodiscard]] UniformStages& uniform() { return uniform_; }

 private:
  struct Where {  // a stage of a candidate
    std::int32_t begin, first_device, copies;
  };

  [[nodiscard]] static bool is_uniform(const CandidateStage& stage);
  [[nodiscard]] std::int32_t setting_of(std::int32_t microbatch, const Split& split) const;
  [[nodiscard]] StageCost uniform_cost(std::int32_t microbatch, const CandidateStage& stage, const Where& where);
  [[nodiscard]] StageCost cost_of(std::int32_t microbatch, const CandidateStage& stage, const Where& where);
  [[nodiscard]] Place place_of(const CandidateStage& stage, const Where& where) const;
  const StagePrice& detailed(std::int32_t microbatch, const CandidateStage& stage, const Where& where);
  [[nodiscard]] StagePrice price_stage(std::int32_t microbatch, const CandidateStage& stage, const Where& where);
  template <bool kMemoized>
  Score compose(const Candidate& candidate);

  const Tables& tables_;
  UniformStages uniform_;
  StageMemo memo_;
  std::unordered_map<LookupKey, StagePrice, LookupKeyHash> details_;
  std::unordered_map<LookupKey, std::vector<double>, LookupKeyHash> sums_;
  LookupKey key_;
};

}  // namespace trimtab::tuner::aceso
