#include "papers/oases/oases_evaluator.hpp"

#include <algorithm>

#include "strategies/strategy_table.hpp"

namespace trimtab::tuner::oases {

OasesEvaluator::OasesEvaluator(const OasesCostModel& cost_model, const PlanSpace& space)
    : Evaluator(cost_model, space), tables_(cost_model.tables()) {}

bool OasesEvaluator::choose(const Candidate& candidate) {
  const std::int32_t devices = tables_.cluster.devices();
  const bool whole = candidate.stages.size() == 1 && candidate.stages.front().devices == devices &&
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

Score OasesEvaluator::price(const Candidate& candidate) {
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

const StagePrice& OasesEvaluator::stage(const Candidate& candidate, std::size_t stage) {
  stage_ = {};
  if (stage != 0 || !choose(candidate)) return stage_;
  const Prediction prediction = cost_model().evaluate(plan_of(tables_, choice_));
  const StagePrediction& of = prediction.stages.front();
  stage_.priced = true;
  stage_.forward = of.forward_ms;
  stage_.backward = of.backward_ms;
  stage_.recompute = stage_.least_recompute = of.recompute_ms;
  stage_.communication = of.exposed_communication_ms;
  stage_.last_backward = stage_.tail = of.backward_ms + of.recompute_ms;
  stage_.step_ms = prediction.iteration_ms;
  stage_.memory_bytes = memory_bytes(tables_.chain, choice_);
  stage_.limit_bytes = tables_.chain.limit;
  stage_.excess_bytes = std::max(0.0, stage_.memory_bytes - stage_.limit_bytes);
  stage_.recompute_ranges = {{0, tables_.chain.nodes}};
  return stage_;
}

Plan OasesEvaluator::plan(const Candidate& candidate) {
  std::vector<std::vector<Range>> recompute;
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    recompute.push_back({{candidate.begin_of(s), candidate.stages[s].end}});
  }
  Plan plan = tuner::plan_of(candidate, model(), recompute);
  plan.schedule = overlapped_schedule();
  return plan;
}

std::string OasesEvaluator::excess_text(const Candidate& candidate) {
  return cost_model().evaluate(plan(candidate)).infeasible_reason;
}

StageChain OasesEvaluator::stage_chain(std::int32_t microbatch) {
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

std::span<const double> OasesEvaluator::computing_sums(std::int32_t microbatch, const Split& split) {
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

StrategyEnd OasesEvaluator::search(SearchRun& run, const std::optional<Candidate>& start) {
  return run_oases(run, start);
}

}  // namespace trimtab::tuner::oases
