#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "trial_stages.hpp"
#include "tuning/trial/gains.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

// A document that is carried inside another; null where it is empty or broken.
json document(const std::string& text) {
  return text.empty() ? json() : json::parse(text, nullptr, false, true);
}

json plan_document(const std::string& text) {
  json plan = document(text);
  return plan.is_discarded() ? json(text) : plan;
}

json measured_json(const Measured& measured) {
  return {{"mean", measured.mean_ms}, {"low", measured.low_ms}, {"high", measured.high_ms}, {"steps", measured.steps}};
}

json ratio_json(const Ratio& ratio) {
  return {{"ratio", ratio.ratio}, {"low", ratio.low}, {"high", ratio.high}};
}

json plan_json(const PlanText& plan, const Predicted& predicted, const Measured& measured) {
  return {{"plan", plan_document(plan.json)},
          {"hash", plan.hash},
          {"predicted_ms", predicted.mean_ms},
          {"predicted_interval_ms", {predicted.low_ms, predicted.high_ms}},
          {"predicted_before_calibration_ms", predicted.raw_ms},
          {"measured_ms", measured_json(measured)}};
}

json cost_json(const Trial& trial) {
  json cost = {{"switch_ms", trial.switch_ms}, {"steps", trial.steps}, {"overhead_ms", trial.overhead_ms()}};
  for (const auto& [name, ms] : trial.switch_phases.named()) cost["switch_phases_ms"][name] = ms;
  return cost;
}

json trial_json(const Trial& trial) {
  return {{"id", trial.id},
          {"plan", plan_document(trial.plan.json)},
          {"hash", trial.plan.hash},
          {"state", to_string(trial.state)},
          {"reason", trial.reason.text()},
          {"message", trial.message},
          {"predicted_ms", trial.predicted.mean_ms},
          {"predicted_interval_ms", {trial.predicted.low_ms, trial.predicted.high_ms}},
          {"predicted_before_calibration_ms", trial.predicted.raw_ms},
          {"measured_ms", measured_json(trial.measured)},
          {"stages", trial_stages(trial)},
          {"incumbent_ms", measured_json(trial.incumbent)},
          {"speedup", ratio_json(trial.ratio)},
          {"break_even_steps", trial.break_even_steps},
          {"cost", cost_json(trial)}};
}

json earlier_trial_json(const EarlierTrial& trial) {
  return {{"id", trial.id},
          {"hash", trial.plan_hash},
          {"state", trial.state},
          {"reason", trial.reason},
          {"predicted_ms", trial.predicted_ms},
          {"measured_ms", trial.measured_ms}};
}

json not_tried_json(const TuningState& state) {
  json list = json::array();
  for (const PassedOver& one : state.passed_over) {
    list.push_back({{"plan", plan_document(one.plan.json)},
                    {"hash", one.plan.hash},
                    {"predicted_ms", one.predicted_ms},
                    {"reason", one.why}});
  }
  return list;
}

json loss_json(const TuningState& state) {
  std::map<std::int64_t, const LossAt*> tuned;
  for (const LossAt& one : state.losses) tuned[one.step] = &one;
  double most = 0;
  int steps = 0;
  bool same = true;
  for (const LossAt& one : state.untuned_losses) {
    const auto found = tuned.find(one.step);
    if (found == tuned.end()) continue;
    ++steps;
    most = std::max(most, std::abs(one.loss - found->second->loss));
    same = same && one.samples == found->second->samples;
  }
  json curve = json::array();
  for (const LossAt& one : state.losses) curve.push_back({one.step, one.loss});
  json untuned = json::array();
  for (const LossAt& one : state.untuned_losses) untuned.push_back({one.step, one.loss});
  return {{"steps", steps},
          {"max_abs_difference_to_untuned_run", most},
          {"same_samples", steps > 0 && same},
          {"note", state.loss_note},
          {"tuned", curve},
          {"untuned", untuned}};
}

// The spread of steps of one plan in one block: what a comparison has to see through.
json noise_json(const std::vector<MeasuredStep>& steps) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<double>> blocks;
  for (const MeasuredStep& step : steps) {
    if (!step.warmup) blocks[{step.trial, step.block}].push_back(step.wall_ms);
  }
  double squares = 0;
  int degrees = 0;
  for (const auto& [key, values] : blocks) {
    double mean = 0;
    for (const double value : values) mean += value / static_cast<double>(values.size());
    for (const double value : values) squares += (value / mean - 1) * (value / mean - 1);
    degrees += static_cast<int>(values.size()) - 1;
  }
  const double variation = degrees > 0 ? std::sqrt(squares / degrees) : 0;
  return {{"coefficient_of_variation", variation}, {"blocks", blocks.size()}};
}

json steps_json(const std::vector<MeasuredStep>& steps) {
  json list = json::array();
  for (const MeasuredStep& step : steps) {
    list.push_back({{"launch", step.launch},
                    {"step", step.step},
                    {"epoch", step.epoch},
                    {"trial", step.trial},
                    {"block", step.block},
                    {"warmup", step.warmup},
                    {"wall_ms", step.wall_ms},
                    {"loss", step.loss}});
  }
  return list;
}

json convergence_json(const TuningState& state) {
  json list = json::array();
  for (const Convergence& one : state.convergence) {
    list.push_back({{"seconds", one.seconds},
                    {"evaluations", one.evaluations},
                    {"trial", one.trial},
                    {"best_measured_ms", one.best_measured_ms},
                    {"best_predicted_ms", one.best_predicted_ms}});
  }
  return list;
}

double seconds_between(std::int64_t begin_ns, std::int64_t end_ns) {
  return end_ns > begin_ns ? static_cast<double>(end_ns - begin_ns) / 1e9 : 0;
}

json drifts_json(const TuningState& state) {
  json list = json::array();
  for (const Drift& one : state.hardware.drifts) {
    list.push_back({{"since_step", one.since_step},
                    {"noticed_step", one.noticed_step},
                    {"before_ms", one.before_ms},
                    {"after_ms", one.after_ms},
                    {"by_look", one.by_look},
                    {"during", one.during},
                    {"what", one.what},
                    {"stale", one.stale}});
    if (one.trials_before < 0) continue;
    list.back()["trials_before"] = one.trials_before;
    if (one.gained_before.ratio != 1) list.back()["gained_before"] = ratio_json(one.gained_before);
  }
  return list;
}

// What trials cost beyond the incumbent's steps.
json overhead_json(const TuningState& state) {
  return {{"ms", state.overhead_ms()}, {"share", state.overhead_share()}, {"allowed_share", state.job.trials.overhead}};
}

// The final comparison, where there was one; the same plan twice is a ratio of exactly 1.
json speedup_json(const TuningState& state) {
  const bool kept_initial = state.incumbent.hash == state.initial.hash;
  return ratio_json(kept_initial || !state.compared ? Ratio{} : state.final_ratio);
}

// What tuning again has gained since the machine changed last.
json retuned_json(const TuningState& state) {
  const auto gain = was_tuned_again(state) ? gained(state) : std::nullopt;
  return gain ? ratio_json(*gain) : json();
}

}  // namespace

PredictionError prediction_error(const TuningState& state) {
  PredictionError error;
  for (const Trial& trial : state.trials) {
    if (trial.measured.steps == 0 || !trial.predicted.priced()) continue;
    error.before += std::abs(trial.predicted.raw_ms / trial.measured.mean_ms - 1);
    error.after += std::abs(trial.predicted.mean_ms / trial.measured.mean_ms - 1);
    ++error.plans;
  }
  if (error.plans > 0) {
    error.before /= error.plans;
    error.after /= error.plans;
  } else if (state.initial_measured.steps > 0 && state.initial_predicted.priced()) {
    error.before = std::abs(state.initial_predicted.raw_ms / state.initial_measured.mean_ms - 1);
    error.after = error.before;
    error.plans = 1;
  }
  return error;
}

std::string report_json(const TuningState& state, const std::string& timelines_json,
                        const std::vector<MeasuredStep>& steps, const std::vector<EarlierTrial>& earlier) {
  const bool compared = state.compared && state.incumbent.hash != state.initial.hash;
  const PredictionError error = prediction_error(state);
  json report = {
      {"schema", "trimtab.report/1"},
      {"job", state.job.name},
      {"mode", to_string(state.job.mode)},
      {"phase", to_string(state.phase)},
      {"fingerprint", state.fingerprint},
      {"initial",
       plan_json(state.initial, state.initial_predicted, compared ? state.final_initial : state.initial_measured)},
      {"adopted", plan_json(state.incumbent, state.incumbent_predicted,
                            compared ? state.final_adopted : state.incumbent_measured)},
      {"speedup", speedup_json(state)},
      {"compared", compared},
      {"retuned", retuned_json(state)},
      {"loss", loss_json(state)},
      {"trials", json::array()},
      {"prediction_error",
       {{"before_calibration", error.before}, {"after_calibration", error.after}, {"plans", error.plans}}},
      {"profiled",
       {{"costs_measured",
         state.profiling.costs_wanted - std::min(state.profiling.costs_missing, state.profiling.costs_wanted)},
        {"costs_reused", state.profiling.costs_reused},
        {"costs_missing", state.profiling.costs_missing},
        {"seconds", static_cast<double>(state.profiling.profiling_ns) / 1e9}}},
      {"seconds", seconds_between(state.begun_wall_ns, std::max(state.finished_wall_ns, state.tuned_wall_ns))},
      {"tuning_seconds", seconds_between(state.begun_wall_ns, state.tuned_wall_ns)}};
  for (const Trial& trial : state.trials) report["trials"].push_back(trial_json(trial));
  for (const EarlierTrial& trial : earlier) report["earlier_trials"].push_back(earlier_trial_json(trial));
  report["not_tried"] = not_tried_json(state);
  report["conclusion"] = state.conclusion;
  report["failure"] = state.failure;
  report["recommendation"] = document(state.recommendation_json);
  report["search"] = {{"evaluations", state.search.evaluations},
                      {"searches", state.search.searches},
                      {"seconds", state.search.seconds},
                      {"explanation", state.explanation}};
  report["convergence"] = convergence_json(state);
  report["drifts"] = drifts_json(state);
  for (const Crash& one : state.crashes) {
    report["crashes"].push_back({{"seconds", seconds_between(state.begun_wall_ns, one.wall_ns)},
                                 {"step", one.step},
                                 {"hash", one.plan_hash},
                                 {"why", one.why}});
  }
  for (const Resize& one : state.elastic.resizes) {
    report["resizes"].push_back({{"step", one.step}, {"lost", one.lost}, {"devices", one.devices}});
    if (one.trials_before >= 0) report["resizes"].back()["trials_before"] = one.trials_before;
    if (!one.joined.empty()) report["resizes"].back()["joined"] = one.joined;
    if (!one.outcome.empty()) report["resizes"].back()["outcome"] = one.outcome;
  }
  report["overhead"] = overhead_json(state);
  report["noise"] = noise_json(steps);
  report["steps"] = steps_json(steps);
  report["timeline"] = document(timelines_json);
  report["calibration"] = document(state.calibration_json);
  report["cluster"] = document(state.cluster_json);
  report["launches"] = state.launch;
  return report.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace trimtab::coordinator
