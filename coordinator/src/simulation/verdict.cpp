#include "simulation/verdict.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

constexpr double kGoal = 1.02;  // of the true best

Plan parsed(const std::string& text) {
  auto plan = parse_plan(text, "a plan of the tuning machine");
  TRIMTAB_ASSERT(plan.ok(), "plans of the tuning machine parse");
  return std::move(plan).value();
}

double overhead_of(const TimeSpent& spent) {
  return spent.steps_ms - spent.useful_ms + spent.changes_ms;
}

json trial_json(const JudgedTrial& trial) {
  return {{"id", trial.id},
          {"state", trial.state},
          {"reason", trial.reason},
          {"true_ms", trial.true_ms},
          {"incumbent_true_ms", trial.incumbent_true_ms},
          {"predicted_ms", trial.predicted_ms},
          {"predicted_interval_ms", {trial.predicted_low_ms, trial.predicted_high_ms}},
          {"speedup", {{"ratio", trial.ratio}, {"low", trial.ratio_low}, {"high", trial.ratio_high}}},
          {"true_speedup", trial.true_ms > 0 ? trial.incumbent_true_ms / trial.true_ms : 0},
          {"steps", trial.steps},
          {"incumbent_after_true_ms", trial.best_so_far_ms},
          {"elapsed_hours", trial.elapsed_ms / 3.6e6},
          {"overhead_hours", trial.overhead_ms / 3.6e6}};
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
    counts.steps += one.steps;
    counts.adoptions += one.adopted() ? 1 : 0;
    counts.false_adoptions += one.adopted() && one.truly_worse() ? 1 : 0;
    counts.too_big += one.reason == "out_of_memory" ? 1 : 0;
    if (counts.to_goal < 0 && one.best_so_far_ms <= kGoal * best_ms) counts.to_goal = one.id;
    if (!one.measured) continue;
    ++counts.measured;
    counts.worse += one.truly_worse() ? 1 : 0;
    counts.covered += one.predicted_low_ms <= one.true_ms && one.true_ms <= one.predicted_high_ms ? 1 : 0;
    const double ratio = one.incumbent_true_ms / one.true_ms;
    counts.ratios_covered += one.ratio_low <= ratio && ratio <= one.ratio_high ? 1 : 0;
  }
  return counts;
}

}  // namespace

double Verdict::true_ms(const std::string& plan_json) const {
  return truth_.price(parsed(plan_json)).ms;
}

void Verdict::watch(const TuningState& state, const TimeSpent& spent) {
  if (state.trials.empty()) return;
  const Trial& last = state.trials.back();
  if (last.id != begun_ && state.has_trial()) {
    begun_ = last.id;
    beside_ = state.incumbent.json;
  }
  const bool judged = !trials_.empty() && trials_.back().id == last.id;
  if (last.id == begun_ && !state.has_trial() && !judged) judge(last, state, spent);
}

void Verdict::judge(const Trial& trial, const TuningState& state, const TimeSpent& spent) {
  JudgedTrial one;
  one.id = trial.id;
  one.state = to_string(trial.state);
  one.reason = trial.reason.text();
  one.true_ms = true_ms(trial.plan.json);
  one.incumbent_true_ms = true_ms(beside_);
  one.predicted_low_ms = trial.predicted.low_ms;
  one.predicted_ms = trial.predicted.mean_ms;
  one.predicted_high_ms = trial.predicted.high_ms;
  one.ratio = trial.ratio.ratio;
  one.ratio_low = trial.ratio.low;
  one.ratio_high = trial.ratio.high;
  one.steps = trial.steps;
  one.measured = trial.measured.steps > 0;
  one.best_so_far_ms = true_ms(state.incumbent.json);
  one.elapsed_ms = spent.steps_ms + spent.changes_ms;
  one.overhead_ms = overhead_of(spent);
  trials_.push_back(std::move(one));
}

void Verdict::first_answer(const SearchReply& reply) {
  if (first_answered_) return;
  first_answered_ = true;
  const auto best = std::min_element(
      reply.candidates.begin(), reply.candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.predicted.mean_ms < b.predicted.mean_ms; });
  if (best != reply.candidates.end()) model_alone_ = truth_.price(parsed(best->plan.json));
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
    if (ran != nullptr) changes.back()["untuned_regret"] = true_ms(ran->json) / best_ms - 1;
  }
  return changes;
}

std::string Verdict::json(const SimulationInput& input, const TuningState& state, const TimeSpent& spent,
                          const TrueBest& known) const {
  const double adopted_ms = true_ms(state.incumbent.json);
  const double best = known.ms;
  const TrialCounts counts = counted(trials_, best, true_ms(state.initial.json) <= kGoal * best);
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
                             {"initial_true_ms", true_ms(state.initial.json)},
                             {"adopted_true_ms", adopted_ms},
                             {"regret", adopted_ms / best - 1},
                             {"gain", true_ms(state.initial.json) / adopted_ms},
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

}  // namespace trimtab::coordinator
