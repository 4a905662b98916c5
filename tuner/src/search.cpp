#include "tuner/search.hpp"

#include <algorithm>
#include <set>

#include "infeasible.hpp"
#include "lower_bound.hpp"
#include "priced_plan.hpp"
#include "strategies/strategy.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

Result<const Strategy*> find_strategy(const std::string& name) {
  std::string known;
  for (const Strategy& strategy : strategy_table()) {
    if (strategy.name == name) return &strategy;
    known += (known.empty() ? "" : ", ") + std::string(strategy.name);
  }
  return bad_input("strategy: needs one of " + known + ", found '" + name + "'");
}

// Names what the usual guesses need, so that the message says what to measure.
Error nothing_priced(const CostModel& cost_model, const PlanSpace& space) {
  const CostTable::Tables& tables = cost_model.table().tables();
  std::set<std::string> missing;
  for (const std::int32_t microbatch : space.microbatches) {
    for (std::int32_t stages = space.stages_min; stages <= space.stages_max; ++stages) {
      const std::vector<std::int32_t> split = space.even_split(tables.model, microbatch, stages);
      if (split.empty()) continue;
      Candidate candidate;
      candidate.microbatch = microbatch;
      std::vector<std::int32_t> ends = even_cuts(tables.model, stages);
      ends.push_back(space.operators);
      for (std::int32_t s = 0; s < stages; ++s) candidate.stages.push_back({ends[s], split[s], 0});
      const Plan plan = plan_of(candidate, tables.model, std::vector<std::vector<Range>>(split.size()));
      const PricedPlan priced = price(tables, cost_model.calibration(), plan);
      missing.insert(priced.names.missing.begin(), priced.names.missing.end());
    }
  }
  constexpr std::size_t kNamed = 8;
  std::string text = "costs: no plan can be priced, " + std::to_string(missing.size()) + " costs are missing: ";
  std::size_t named = 0;
  for (const std::string& name : missing) {
    if (named++ == kNamed) break;
    text += (named > 1 ? "; " : "") + name;
  }
  if (missing.size() > kNamed) text += "; ...";
  return bad_input(text + ". Profile the model on this hardware first");
}

// The incumbent as it is, its own recompute included: never worse than where the search started.
void add_start(const CostModel& cost_model, const SearchOptions& options, SearchRun& run) {
  if (!options.start) return;
  const CostTable& table = cost_model.table();
  if (!validate(*options.start, table.model(), table.cluster(), run.space().knobs).empty()) return;
  const Prediction prediction = cost_model.evaluate(*options.start);
  Score score;
  score.priced = prediction.missing_costs.empty();
  score.ms = prediction.iteration_ms;
  score.excess_bytes = prediction.feasible ? 0 : 1;
  run.consider_plan(score, [&options] { return *options.start; });
}

std::vector<RankedPlan> ranked(const CostModel& cost_model, const std::vector<Plan>& plans) {
  std::vector<RankedPlan> out;
  for (const Plan& plan : plans) out.push_back({plan, cost_model.evaluate(plan)});
  return out;
}

}  // namespace

Result<SearchOutcome> search(const CostModel& cost_model, const Knobs& knobs, const SearchOptions& options) {
  TRIMTAB_TRY(const Strategy* const strategy, find_strategy(options.strategy));
  const CostTable& table = cost_model.table();
  const std::int32_t fixed =
      options.start ? options.start->microbatch : usual_guess(table.model(), table.cluster(), knobs).microbatch;
  const PlanSpace space = plan_space(table.model(), table.cluster(), knobs, fixed);
  Evaluator evaluator(cost_model, space);
  SearchRun run(evaluator, options);
  std::optional<Candidate> start;
  if (options.start && validate(*options.start, table.model(), table.cluster(), knobs).empty()) {
    start = candidate_of(*options.start, space);
  }
  add_start(cost_model, options, run);
  const StrategyEnd end = strategy->run(run, start);

  SearchOutcome outcome;
  outcome.trace = std::move(run.trace());
  SearchResult& result = outcome.result;
  result.strategy = options.strategy;
  result.cost_model = "native";
  result.space = "job";
  result.seed = options.seed;
  result.evaluations = evaluator.evaluations();
  result.stopped = run.stop_reason().empty() ? end.stopped : run.stop_reason();
  result.lower_bound_ms = lower_bound_ms(cost_model, space);
  result.plans = ranked(cost_model, run.shortlist().plans());
  result.proven = end.proven && run.stop_reason().empty();
  if (!result.plans.empty()) return outcome;
  const bool anything_possible = space.stages_max >= space.stages_min && evaluator.evaluations() > 0;
  if (!run.closest() && anything_possible && run.refused().empty() && run.stop_reason().empty()) {
    return nothing_priced(cost_model, space);
  }
  outcome.infeasible = explain_infeasible(cost_model, run);
  return outcome;
}

std::vector<std::string_view> strategies() {
  std::vector<std::string_view> names;
  for (const Strategy& strategy : strategy_table()) names.push_back(strategy.name);
  return names;
}

}  // namespace trimtab::tuner
