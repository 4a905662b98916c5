#include "simulation/verdict.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tuner/search.hpp"
#include "tuning/search/search_task.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

constexpr double kGoal = 1.02;  // of the true best

// Of each search. What is slower by its costs than so many others would have to be very lucky.
constexpr std::size_t kPricedAsTheyAre = 200;

void consider(const Plan& plan, GroundTruth& truth, TrueBest& best) {
  const TruePrice& price = truth.price(plan);
  if (!price.fits || (best.ms > 0 && price.ms >= best.ms)) return;
  best.ms = price.ms;
  best.plan_json = to_json(plan);
}

// Those that are for the devices that there are.
void consider_met(const TuningState& state, GroundTruth& truth, TrueBest& best) {
  best = {truth.price(tuned_plan(state.incumbent)).ms, state.incumbent.json};
  consider(tuned_plan(state.initial), truth, best);
  for (const Trial& trial : state.trials) {
    if (trial.id > state.trials_before_resize) consider(tuned_plan(trial.plan), truth, best);
  }
}

double overhead_of(const TimeSpent& spent) {
  return spent.steps_ms - spent.useful_ms + spent.changes_ms;
}

json trial_json(const JudgedTrial& one) {
  const Trial& trial = one.trial;
  return {{"id", trial.id},
          {"state", to_string(trial.state)},
          {"reason", trial.reason.text()},
          {"true_ms", one.true_ms},
          {"incumbent_true_ms", one.incumbent_true_ms},
          {"predicted_ms", trial.predicted.mean_ms},
          {"predicted_interval_ms", {trial.predicted.low_ms, trial.predicted.high_ms}},
          {"speedup", {{"ratio", trial.ratio.ratio}, {"low", trial.ratio.low}, {"high", trial.ratio.high}}},
          {"true_speedup", one.true_ms > 0 ? one.incumbent_true_ms / one.true_ms : 0},
          {"steps", trial.steps},
          {"incumbent_after_true_ms", one.best_so_far_ms},
          {"elapsed_hours", one.elapsed_ms / 3.6e6},
          {"overhead_hours", one.overhead_ms / 3.6e6}};
}

// Null where the plan is known no more, or was of more devices than are left.
const PlanText* plan_of(const std::string& hash, const TuningState& state) {
  if (!state.elastic.resizes.empty()) return nullptr;
  for (const PlanText* one : {&state.initial, &state.incumbent}) {
    if (one->hash == hash) return one;
  }
  const auto trial = std::ranges::find(state.trials, hash, [](const Trial& one) { return one.plan.hash; });
  return trial == state.trials.end() ? nullptr : &trial->plan;
}

void count(const std::vector<JudgedTrial>& trials, SimulationVerdict& verdict) {
  const double goal_ms = kGoal * verdict.best_true_ms;
  if (verdict.initial_true_ms <= goal_ms) verdict.trials_to_goal = 0;
  verdict.trials = trials.size();
  for (const JudgedTrial& one : trials) {
    const Trial& trial = one.trial;
    const bool adopted = trial.state == TrialState::kAdopted;
    verdict.trial_steps += trial.steps;
    verdict.adoptions += adopted ? 1 : 0;
    verdict.false_adoptions += adopted && one.truly_worse() ? 1 : 0;
    verdict.out_of_memory_trials += trial.reason.text() == "out_of_memory" ? 1 : 0;
    if (verdict.trials_to_goal < 0 && one.best_so_far_ms <= goal_ms) verdict.trials_to_goal = trial.id;
    if (trial.measured.steps == 0) continue;
    ++verdict.measured_trials;
    verdict.truly_worse_trials += one.truly_worse() ? 1 : 0;
    const bool covered = trial.predicted.low_ms <= one.true_ms && one.true_ms <= trial.predicted.high_ms;
    verdict.predictions_covered += covered ? 1 : 0;
    const double ratio = one.incumbent_true_ms / one.true_ms;
    verdict.ratios_covered += trial.ratio.low <= ratio && ratio <= trial.ratio.high ? 1 : 0;
  }
}

}  // namespace

void Verdict::watch(const TuningState& state, const TimeSpent& spent) {
  if (state.trials.empty()) return;
  const Trial& last = state.trials.back();
  if (last.id != begun_ && state.has_trial()) {
    begun_ = last.id;
    beside_ = state.incumbent;
  }
  const bool judged = !trials_.empty() && trials_.back().trial.id == last.id;
  if (last.id != begun_ || state.has_trial() || judged) return;
  trials_.push_back({last, true_ms(last.plan), true_ms(beside_), true_ms(state.incumbent),
                     spent.steps_ms + spent.changes_ms, overhead_of(spent)});
}

void Verdict::first_answer(const SearchReply& reply) {
  if (first_answered_) return;
  first_answered_ = true;
  if (const PricedPlan* const best = fastest(reply)) model_alone_ = truth_.price(tuned_plan(best->plan));
}

// What was noticed of the cluster's changes, and how far from the best the plan is that ran then, on the cluster as it
// is in the end: where nobody had tuned again.
nlohmann::json Verdict::changes_json(const TuningState& state, double best_ms) const {
  auto changes = nlohmann::json::array();
  for (const Drift& drift : state.hardware.drifts) {
    const PlanText* const ran = plan_of(drift.plan_hash, state);
    changes.push_back({{"since_step", drift.since_step},
                       {"noticed_step", drift.noticed_step},
                       {"by_look", drift.by_look},
                       {"during", drift.during},
                       {"what", drift.what}});
    if (ran != nullptr) changes.back()["untuned_regret"] = true_ms(*ran) / best_ms - 1;
  }
  return changes;
}

SimulationVerdict Verdict::judge(const TuningState& state, const TimeSpent& spent, const TrueBest& known) const {
  SimulationVerdict verdict;
  verdict.truth = truth_.factors();
  verdict.initial_true_ms = true_ms(state.initial);
  verdict.adopted_true_ms = true_ms(state.incumbent);
  verdict.best_true_ms = known.ms;
  verdict.regret = verdict.adopted_true_ms / known.ms - 1;
  count(trials_, verdict);
  const auto steps_left = static_cast<double>(std::max<std::int64_t>(state.job.steps - state.step, 0));
  const double job_ms = spent.steps_ms + spent.changes_ms + steps_left * verdict.adopted_true_ms;
  const double overhead_ms = overhead_of(spent);
  verdict.job_hours = job_ms / 3.6e6;
  verdict.overhead_share = job_ms > 0 ? overhead_ms / job_ms : 0;
  verdict.overhead_device_hours = overhead_ms / 3.6e6 * static_cast<double>(state.job.world_size);
  return verdict;
}

std::string Verdict::json(const SimulationVerdict& verdict, const SimulationInput& input, const TuningState& state,
                          const TrueBest& known) const {
  auto trials = nlohmann::json::array();
  for (const JudgedTrial& one : trials_) trials.push_back(trial_json(one));
  const TrueFactors& factors = verdict.truth;
  nlohmann::json document = {{"schema", "trimtab.simulation/1"},
                             {"seed", input.seed},
                             {"planner", input.planner},
                             {"devices", state.job.world_size},
                             {"truth",
                              {{"computation", factors.computation},
                               {"communication", factors.communication},
                               {"overlap", factors.overlap},
                               {"memory", factors.memory}}},
                             {"phase", to_string(state.phase)},
                             {"failure", state.failure},
                             {"conclusion", state.conclusion},
                             {"drifts", state.hardware.drifts.size()},
                             {"changes", changes_json(state, known.ms)},
                             {"resizes", state.elastic.resizes.size()},
                             {"devices_left", state.world_size()},
                             {"best_true_ms", verdict.best_true_ms},
                             {"best_of_costs_ms", known.of_costs_ms},
                             {"lower_bound_of_costs_ms", known.lower_bound_ms},
                             {"initial_true_ms", verdict.initial_true_ms},
                             {"adopted_true_ms", verdict.adopted_true_ms},
                             {"regret", verdict.regret},
                             {"gain", verdict.initial_true_ms / verdict.adopted_true_ms},
                             {"trials", trials},
                             {"trials_to_2_percent", verdict.trials_to_goal},
                             {"trial_steps", verdict.trial_steps},
                             {"adoptions", verdict.adoptions},
                             {"false_adoptions", verdict.false_adoptions},
                             {"truly_worse_trials", verdict.truly_worse_trials},
                             {"out_of_memory_trials", verdict.out_of_memory_trials},
                             {"measured_trials", verdict.measured_trials},
                             {"predictions_covered", verdict.predictions_covered},
                             {"ratios_covered", verdict.ratios_covered},
                             {"job_hours", verdict.job_hours},
                             {"overhead_share", verdict.overhead_share},
                             {"overhead_device_hours", verdict.overhead_device_hours},
                             {"evaluations", state.search.evaluations},
                             {"best_plan", nlohmann::json::parse(known.plan_json, nullptr, false)}};
  if (model_alone_) {
    document["model_alone"] = {
        {"true_ms", model_alone_->ms}, {"fits", model_alone_->fits}, {"regret", model_alone_->ms / known.ms - 1}};
  }
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<TrueBest> true_best(const SimulationInput& input, GroundTruth& truth, const TuningState& state) {
  TrueBest best;
  consider_met(state, truth, best);
  for (const char* strategy : {"aceso", "unified"}) {
    tuner::SearchOptions options;
    options.strategy = strategy;
    options.seed = input.seed;
    options.max_evaluations = input.best_evaluations > 0 ? input.best_evaluations : 4 * input.evaluations;
    options.plans = kPricedAsTheyAre;
    TRIMTAB_TRY(const tuner::SearchOutcome outcome, tuner::search(truth.cost_model(), input.job.knobs, options));
    best.lower_bound_ms = std::max(best.lower_bound_ms, outcome.result.lower_bound_ms);
    for (const RankedPlan& ranked : outcome.result.plans) consider(ranked.plan, truth, best);
    if (outcome.result.plans.empty()) continue;
    const double first_ms = outcome.result.plans.front().prediction.iteration_ms;
    best.of_costs_ms = best.of_costs_ms > 0 ? std::min(best.of_costs_ms, first_ms) : first_ms;
  }
  return best;
}

}  // namespace trimtab::coordinator
