#include "simulation/verdict.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tuner/search.hpp"

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
  best = {truth.price(tuned_plan(state.incumbent.json)).ms, state.incumbent.json};
  consider(tuned_plan(state.initial.json), truth, best);
  for (const Trial& trial : state.trials) {
    if (trial.id > state.trials_before_resize) consider(tuned_plan(trial.plan.json), truth, best);
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

struct TrialCounts {
  int adoptions = 0;
  int false_adoptions = 0;
  int worse = 0;
  int measured = 0;
  int covered = 0;
  int ratios_covered = 0;
  int too_big = 0;
  int to_goal = -1;  // the trial by which the incumbent was within kGoal; 0 = it was at the start, -1 = never
  std::int64_t steps = 0;
};

TrialCounts counted(const std::vector<JudgedTrial>& trials, double best_ms, bool good_at_start) {
  TrialCounts counts;
  if (good_at_start) counts.to_goal = 0;
  for (const JudgedTrial& one : trials) {
    const Trial& trial = one.trial;
    const bool adopted = trial.state == TrialState::kAdopted;
    counts.steps += trial.steps;
    counts.adoptions += adopted ? 1 : 0;
    counts.false_adoptions += adopted && one.truly_worse() ? 1 : 0;
    counts.too_big += trial.reason.text() == "out_of_memory" ? 1 : 0;
    if (counts.to_goal < 0 && one.best_so_far_ms <= kGoal * best_ms) counts.to_goal = trial.id;
    if (trial.measured.steps == 0) continue;
    ++counts.measured;
    counts.worse += one.truly_worse() ? 1 : 0;
    const bool covered = trial.predicted.low_ms <= one.true_ms && one.true_ms <= trial.predicted.high_ms;
    counts.covered += covered ? 1 : 0;
    const double ratio = one.incumbent_true_ms / one.true_ms;
    counts.ratios_covered += trial.ratio.low <= ratio && ratio <= trial.ratio.high ? 1 : 0;
  }
  return counts;
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
  const auto best = std::min_element(
      reply.candidates.begin(), reply.candidates.end(),
      [](const PricedPlan& a, const PricedPlan& b) { return a.predicted.mean_ms < b.predicted.mean_ms; });
  if (best != reply.candidates.end()) model_alone_ = truth_.price(tuned_plan(best->plan.json));
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

std::string Verdict::json(const SimulationInput& input, const TuningState& state, const TimeSpent& spent,
                          const TrueBest& known) const {
  const double adopted_ms = true_ms(state.incumbent);
  const double best = known.ms;
  const TrialCounts counts = counted(trials_, best, true_ms(state.initial) <= kGoal * best);
  auto trials = nlohmann::json::array();
  for (const JudgedTrial& one : trials_) trials.push_back(trial_json(one));
  const double rest_ms = static_cast<double>(std::max<std::int64_t>(state.job.steps - state.step, 0)) * adopted_ms;
  const double job_ms = spent.steps_ms + spent.changes_ms + rest_ms;
  const double overhead_ms = overhead_of(spent);
  const auto devices = static_cast<double>(state.job.world_size);
  const TrueFactors& factors = truth_.factors();
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
                             {"changes", changes_json(state, best)},
                             {"resizes", state.elastic.resizes.size()},
                             {"devices_left", state.world_size()},
                             {"best_true_ms", best},
                             {"best_of_costs_ms", known.of_costs_ms},
                             {"lower_bound_of_costs_ms", known.lower_bound_ms},
                             {"initial_true_ms", true_ms(state.initial)},
                             {"adopted_true_ms", adopted_ms},
                             {"regret", adopted_ms / best - 1},
                             {"gain", true_ms(state.initial) / adopted_ms},
                             {"trials", trials},
                             {"trials_to_2_percent", counts.to_goal},
                             {"trial_steps", counts.steps},
                             {"adoptions", counts.adoptions},
                             {"false_adoptions", counts.false_adoptions},
                             {"truly_worse_trials", counts.worse},
                             {"out_of_memory_trials", counts.too_big},
                             {"measured_trials", counts.measured},
                             {"predictions_covered", counts.covered},
                             {"ratios_covered", counts.ratios_covered},
                             {"job_hours", job_ms / 3.6e6},
                             {"overhead_share", job_ms > 0 ? overhead_ms / job_ms : 0},
                             {"overhead_device_hours", overhead_ms / 3.6e6 * devices},
                             {"evaluations", state.search.evaluations},
                             {"best_plan", nlohmann::json::parse(known.plan_json, nullptr, false)}};
  if (model_alone_) {
    document["model_alone"] = {
        {"true_ms", model_alone_->ms}, {"fits", model_alone_->fits}, {"regret", model_alone_->ms / best - 1}};
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
