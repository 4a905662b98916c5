#include <algorithm>
#include <map>

#include "papers/answers/answers.hpp"
#include "papers/oases/tables.hpp"
#include "pricing/stage_chain.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace oases {
namespace {

// One stage over all devices from tables of nodes and neighbours. Every other candidate is without a price. One per
// search; not thread-safe.
class OasesEvaluator final : public Evaluator, public OwnSearch, public StageChains {
 public:
  OasesEvaluator(const OasesCostModel& cost_model, const PlanSpace& space)
      : Evaluator(cost_model, space), tables_(cost_model.tables()) {}

  Score price(const Candidate& candidate) override {
    count();
    Score score;
    if (!choose(candidate)) return score;
    const Chain& chain = tables_.chain;
    score.priced = true;
    score.ms = 0;
    double memory = chain.buffer[choice_.back()];
    for (std::int32_t n = 0; n < chain.nodes; ++n) {
      const std::size_t at = chain.at(n, choice_[n]);
      score.ms += tables_.terms.node[at];
      if (n + 1 < chain.nodes) score.ms += tables_.terms.edge[at * chain.degrees.size() + choice_[n + 1]];
      memory += chain.memory[at];
    }
    score.excess_bytes = std::max(0.0, memory - chain.limit);
    return score;
  }

  const StagePrice& stage(const Candidate& candidate, std::size_t stage) override {
    stage_ = {};
    if (stage != 0 || !choose(candidate)) return stage_;
    const Prediction prediction = cost_model().evaluate(plan_of(tables_, choice_));
    stage_ = papers::stage_price(prediction.stages.front());
    stage_.least_recompute = stage_.recompute;
    stage_.step_ms = prediction.iteration_ms;
    stage_.memory_bytes = memory_bytes(tables_.chain, choice_);
    papers::set_limit(tables_.chain.limit, stage_);
    stage_.recompute_ranges = {{0, tables_.chain.nodes}};
    return stage_;
  }

  // With the overlapped schedule.
  Plan plan(const Candidate& candidate) override {
    std::vector<std::vector<Range>> recompute;
    for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
      recompute.push_back({{candidate.begin_of(s), candidate.stages[s].end}});
    }
    Plan plan = tuner::plan_of(candidate, model(), recompute);
    plan.schedule = overlapped_schedule();
    return plan;
  }

  std::string excess_text(const Candidate& candidate) override {
    return cost_model().evaluate(plan(candidate)).infeasible_reason;
  }

  std::span<const double> computing_sums(std::int32_t microbatch, const Split& split) override {
    const std::int32_t degree = tables_.index_of(split.tp);
    if (degree < 0 || microbatch != tables_.model.global_batch) return {};
    std::vector<double>& sums = sums_[split.tp];
    if (!sums.empty()) return sums;
    sums.push_back(0);
    for (std::int32_t n = 0; n < tables_.chain.nodes; ++n) {
      const std::size_t at = tables_.chain.at(n, degree);
      sums.push_back(sums.back() + 2 * (tables_.chain.forward[at] + tables_.chain.backward[at]));
    }
    return sums;
  }

  StageChains* stage_chains() override { return this; }
  // Exact.
  StageChain stage_chain(std::int32_t microbatch) override {
    const Chain& from = tables_.chain;
    StageChain chain;
    chain.exact = true;
    chain.limit = from.limit;
    std::vector<std::int32_t> used;
    for (std::int32_t j = 0; j < from.options() && microbatch == tables_.model.global_batch; ++j) {
      const Split split{space().devices / from.degrees[j], from.degrees[j]};
      if (!space().allows(tables_.model, microbatch, space().devices, split)) continue;
      used.push_back(j);
      chain.splits.push_back(split);
      chain.buffer.push_back(from.buffer[j]);
    }
    for (std::int32_t n = 0; n < from.nodes; ++n) {
      for (const std::int32_t i : used) {
        const std::size_t at = from.at(n, i);
        chain.node.push_back(tables_.terms.node[at]);
        chain.memory.push_back(from.memory[at]);
        for (const std::int32_t j : used) {
          if (n + 1 < from.nodes) chain.edge.push_back(tables_.terms.edge[at * from.degrees.size() + j]);
        }
      }
    }
    return chain;
  }

  OwnSearch* own_search() override { return this; }
  [[nodiscard]] std::string_view strategy() const override { return "oases"; }
  StrategyEnd search(SearchRun& run, const std::optional<Candidate>& start) override { return run_oases(run, start); }

 private:
  // Fills in choice_; false where the model prices no such candidate.
  bool choose(const Candidate& candidate) {
    const bool whole = candidate.stages.size() == 1 && candidate.stages.front().devices == tables_.cluster.devices() &&
                       candidate.microbatch == tables_.model.global_batch;
    if (!whole) return false;
    const CandidateStage& stage = candidate.stages.front();
    const bool all = !stage.recompute || *stage.recompute == std::vector<Range>{{0, stage.end}};
    if (!stage.alternate.empty() || !all) return false;
    choice_.clear();
    const auto add = [this](std::int32_t end, const Split& split) {
      const std::int32_t degree = split.sharded == ShardedLevel::kNone ? tables_.index_of(split.tp) : -1;
      if (degree >= 0) choice_.resize(static_cast<std::size_t>(end), degree);
      return degree >= 0;
    };
    if (stage.segments.empty()) return add(stage.end, stage.split);
    return std::all_of(stage.segments.begin(), stage.segments.end(),
                       [&add](const CandidateSegment& segment) { return add(segment.end, segment.split); });
  }

  const Tables& tables_;
  Choice choice_;
  StagePrice stage_;
  std::map<std::int32_t, std::vector<double>> sums_;  // by tp
};

}  // namespace
}  // namespace oases

std::unique_ptr<Evaluator> OasesCostModel::evaluator(const PlanSpace& space) const {
  return std::make_unique<oases::OasesEvaluator>(*this, space);
}

}  // namespace trimtab::tuner
