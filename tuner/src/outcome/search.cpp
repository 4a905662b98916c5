#include "tuner/search.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "outcome/bucket_sizes.hpp"
#include "outcome/infeasible.hpp"
#include "plan/target_space.hpp"
#include "pricing/bounds.hpp"
#include "schema/target.hpp"
#include "search/strategy.hpp"
#include "search/texts.hpp"
#include "strategies/strategy_table.hpp"
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

constexpr std::int32_t kShortModel = 2000;  // operators
constexpr double kMomentOfEffort = 0.05;
constexpr std::int32_t kGuesses = 16;  // counts of stages whose costs a message looks at

// Names what the usual guesses need, so that the message says what to measure.
Error nothing_priced(Evaluator& evaluator) {
  const PlanSpace& space = evaluator.space();
  std::set<std::string> missing;
  for (const std::int32_t microbatch : space.microbatches) {
    const std::int32_t most = std::min(space.stages_max, space.stages_min + kGuesses);
    for (std::int32_t stages = space.stages_min; stages <= most; ++stages) {
      const std::vector<std::int32_t> split = space.even_split(evaluator.model(), microbatch, stages);
      if (split.empty()) continue;
      Candidate candidate;
      candidate.microbatch = microbatch;
      std::vector<std::int32_t> ends = even_cuts(evaluator.model(), stages);
      ends.push_back(space.operators);
      for (std::int32_t s = 0; s < stages; ++s) {
        candidate.stages.push_back({});
        candidate.stages.back().end = ends[s];
        candidate.stages.back().devices = split[s];
        candidate.stages.back().split = space.splits(evaluator.model(), microbatch, split[s]).front();
      }
      const Prediction prediction = evaluator.cost_model().evaluate(evaluator.plan(candidate));
      missing.insert(prediction.missing_costs.begin(), prediction.missing_costs.end());
    }
  }
  return bad_input("costs: no plan can be priced, " + std::to_string(missing.size()) +
                   " costs are missing: " + first_names(missing) + ". Profile the model on this hardware first");
}

// The incumbent as it is, its own recompute included: never worse than where the search started.
void add_start(const CostModel& cost_model, const Plan& start, SearchRun& run) {
  const Prediction prediction = cost_model.evaluate(start);
  Score score;
  score.priced = prediction.missing_costs.empty();
  score.ms = prediction.iteration_ms;
  score.excess_bytes = prediction.feasible ? 0 : 1;
  run.consider_plan(score, [&start] { return start; });
}

bool usable(const CostModel& cost_model, const Plan& start, const PlanSpace& space) {
  // A job's knobs say nothing of a space of its own.
  const bool valid = space.name == "job"
                         ? validate(start, cost_model.model(), cost_model.cluster(), space.knobs).empty()
                         : validate(start, cost_model.model(), cost_model.cluster()).empty();
  return valid && cost_model.unpriced(start).empty();
}

// Other strategies choose stage by stage, which no target with knobs for the whole job can run.
Status check_target(const SearchOptions& options) {
  if (!limits_plans(options.target) || options.strategy == "target") return {};
  return bad_input("strategy: plans of target '" + options.target + "' are found by strategy 'target' alone, found '" +
                   options.strategy + "'");
}

// Above 0: plans say a size of buckets, or have this one, and the search chooses it.
std::int64_t usual_bucket_bytes(const std::string& target) {
  if (target.empty()) return 0;
  const auto limits = target_limits(target);
  return limits.ok() ? limits->bucket_bytes : 0;
}

bool runs_on(const std::string& target, const Plan& start, const Model& model) {
  if (target.empty()) return true;
  const auto complaints = unhonoured(start, model, target);
  return complaints.ok() && complaints->empty();
}

// Nothing is faster: a search that was ended early may have found that too.
bool meets_bound(const SearchResult& result, const SearchOptions& options) {
  constexpr double kMet = 1 - 1e-9;
  return !result.plans.empty() && options.excluded.empty() &&
         result.lower_bound_ms >= result.plans.front().prediction.iteration_ms * kMet;
}

// What a search's inner loop priced is priced once more, by the cost model itself, whose word counts.
struct Ranking {
  std::vector<RankedPlan> plans;  // best first; all fit
  std::string refused;            // why the fastest of the others does not fit; empty where all do
};

Ranking ranked(const CostModel& cost_model, const std::vector<Plan>& plans) {
  Ranking out;
  for (const Plan& plan : plans) {
    Prediction prediction = cost_model.evaluate(plan);
    if (prediction.feasible) {
      out.plans.push_back({plan, std::move(prediction)});
    } else if (out.refused.empty()) {
      out.refused = std::move(prediction.infeasible_reason);
    }
  }
  std::stable_sort(out.plans.begin(), out.plans.end(), [](const RankedPlan& a, const RankedPlan& b) {
    return a.prediction.iteration_ms < b.prediction.iteration_ms;
  });
  return out;
}

}  // namespace

Result<SearchOutcome> search(const CostModel& cost_model, const Knobs& knobs, const SearchOptions& options) {
  TRIMTAB_TRY(const Strategy* const strategy, find_strategy(options.strategy));
  const Model& model = cost_model.model();
  std::int32_t fixed = 0;
  if (!knobs.microbatch) {
    fixed = options.start ? options.start->microbatch : usual_guess(model, cost_model.cluster(), knobs).microbatch;
  }
  TRIMTAB_TRY(PlanSpace space, named_space(options.space, model, cost_model.cluster(), knobs, fixed));
  TRIMTAB_TRY_STATUS(leave_out(options.without, space));
  TRIMTAB_TRY_STATUS(check_target(options));
  if (!options.target.empty()) TRIMTAB_TRY_STATUS(restrict_to_target(options.target, model, space));
  const std::unique_ptr<Evaluator> evaluator = cost_model.evaluator(space);
  SearchRun run(*evaluator, options);
  evaluator->stop_when([&run] { return run.over(); });
  std::optional<Candidate> start;
  if (options.start && usable(cost_model, *options.start, space) && runs_on(options.target, *options.start, model)) {
    start = candidate_of(*options.start, space);
    if (start || space.name == "job" || !options.target.empty()) add_start(cost_model, *options.start, run);
  }
  const StrategyEnd end = run_strategy(*strategy, run, start);
  if (!end.refusal.empty()) return bad_input("strategy " + options.strategy + ": " + end.refusal);

  SearchOutcome outcome;
  outcome.trace = std::move(run.trace());
  SearchResult& result = outcome.result;
  result.strategy = options.strategy;
  result.cost_model = cost_model.name();
  result.space = space.name;
  result.seed = options.seed;
  result.evaluations = evaluator->evaluations();
  result.stopped = run.stop_reason().empty() ? end.stopped : run.stop_reason();
  result.lower_bound_ms = end.lower_bound_ms;
  const std::int64_t bucket_bytes = usual_bucket_bytes(options.target);
  // No bound knows of buckets: a step that pays fewer latencies may be below it.
  Bounds* const bounds = evaluator->bounds();
  if (bounds != nullptr && !end.proven && bucket_bytes == 0) {
    BoundRequest request{run.shortlist().best_ms(), options.idle_devices};
    // Time has run out: a bound may take a moment, no more.
    if (run.stop_reason() == "cancelled") request.effort = space.operators <= kShortModel ? kMomentOfEffort : 0;
    result.lower_bound_ms = std::max(end.lower_bound_ms, bounds->lower_bound_ms(request));
  }
  std::vector<Plan> found = run.shortlist().plans();
  if (bucket_bytes > 0) found = with_bucket_sizes(cost_model, found, bucket_bytes, options.excluded);
  Ranking ranking = ranked(cost_model, found);
  if (ranking.plans.size() > options.plans) ranking.plans.resize(options.plans);
  result.plans = std::move(ranking.plans);
  const bool proven = end.proven && run.stop_reason().empty() && ranking.refused.empty();
  result.proven = proven || meets_bound(result, options);
  if (!result.plans.empty()) return outcome;
  if (!ranking.refused.empty()) {
    outcome.infeasible = "none of the plans that were found fits; the fastest fails on " + ranking.refused;
    return outcome;
  }
  const bool anything_possible = space.stages_max >= space.stages_min && evaluator->evaluations() > 0;
  if (!run.closest() && anything_possible && run.refused().empty() && run.stop_reason().empty()) {
    return nothing_priced(*evaluator);
  }
  outcome.infeasible = explain_infeasible(run);
  return outcome;
}

std::vector<std::string_view> strategies() {
  std::vector<std::string_view> names;
  for (const Strategy& strategy : strategy_table()) names.push_back(strategy.name);
  return names;
}

std::vector<std::string_view> plan_spaces() {
  return spaces();
}

}  // namespace trimtab::tuner
