#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "schema/api/report.hpp"
#include "tuning/search/told_near.hpp"
#include "tuning/trial/gains.hpp"

namespace trimtab::coordinator {
namespace {

std::optional<api::Terms> terms_of(const std::vector<StepTerms>& terms, std::size_t stage) {
  if (stage >= terms.size() || terms[stage].total_ms() <= 0) return std::nullopt;
  api::Terms told{terms[stage]};
  if (told.launching_ms > 0) told.launch_bound_ms = told.launching_ms;
  return told;
}

std::optional<api::Terms> measured_terms_of(const Trial& trial, std::size_t stage) {
  std::optional<api::Terms> terms = terms_of(trial.measured_terms, stage);
  if (!terms || stage >= trial.measured_parts.size()) return terms;
  const TermParts& parts = trial.measured_parts[stage];
  terms->own_ms = parts.own_ms;
  terms->bubble_ms = parts.bubble_ms;
  terms->launch_bound_ms = parts.launch_bound_ms;
  terms->data_ms = parts.data_ms;
  return terms;
}

api::Measured document_of(const Measured& measured) {
  return {measured.mean_ms, measured.low_ms, measured.high_ms, measured.steps};
}

api::MeasuredPlan document_of(const PlanText& plan, const Predicted& predicted, const Measured& measured) {
  return {{{plan.json}}, plan.hash, predicted.mean_ms, interval_of(predicted), predicted.raw_ms, document_of(measured)};
}

api::ReportTrial document_of(const Trial& trial) {
  api::ReportTrial document;
  static_cast<api::MeasuredPlan&>(document) = document_of(trial.plan, trial.predicted, trial.measured);
  document.id = std::int64_t{trial.id};
  document.state = trial.state;
  document.reason = trial.reason.text();
  document.message = trial.message;
  document.stages = trial_stages(trial);
  document.incumbent_ms = document_of(trial.incumbent);
  document.speedup = document_of(trial.ratio);
  document.break_even_steps = trial.break_even_steps;
  document.cost = {trial.switch_ms, std::nullopt, trial.overhead_ms(), trial.steps};
  if (trial.change_phases.known()) document.cost.switch_phases_ms = document_of(trial.change_phases);
  return document;
}

std::vector<api::LossPoint> curve_of(const std::vector<LossAt>& losses) {
  std::vector<api::LossPoint> curve;
  for (const LossAt& one : losses) curve.emplace_back(one.step, one.loss);
  return curve;
}

api::LossCheck loss_check(const TuningState& state) {
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
  return {steps, most, steps > 0 && same, state.loss_note, curve_of(state.losses), curve_of(state.untuned_losses)};
}

api::Noise noise_of(const std::vector<MeasuredStep>& steps) {
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
  return {degrees > 0 ? std::sqrt(squares / degrees) : 0, blocks.size()};
}

double seconds_between(std::int64_t begin_ns, std::int64_t end_ns) {
  return end_ns > begin_ns ? static_cast<double>(end_ns - begin_ns) / 1e9 : 0;
}

// Of a drift or a change of nodes that came before any trial it is not said.
std::optional<std::int64_t> said(std::int32_t trials_before) {
  return trials_before < 0 ? std::nullopt : std::optional<std::int64_t>(trials_before);
}

api::MeasuredAgain document_of(const Remeasured& again) {
  api::MeasuredAgain document{again.doubtful, again.step, again.took_ms, {}, again.left};
  for (const MeasuredCost& one : again.costs) {
    document.costs.push_back({describe(one), one.before_ns * 1e-6, one.expected_ns * 1e-6, one.now_ns() * 1e-6});
  }
  return document;
}

api::Drift document_of(const Drift& drift) {
  api::Drift document{.since_step = drift.since_step,
                      .noticed_step = drift.noticed_step,
                      .before_ms = drift.before_ms,
                      .after_ms = drift.after_ms,
                      .by_look = drift.by_look,
                      .during = drift.during,
                      .what = drift.what,
                      .confidence = drift.confidence,
                      .stale = drift.stale,
                      .trials_before = said(drift.trials_before),
                      .gained_before = std::nullopt,
                      .measured_again = std::nullopt};
  if (drift.doubts && drift.again.doubtful > 0) document.measured_again = document_of(drift.again);
  if (document.trials_before && drift.gained_before.ratio != 1) {
    document.gained_before = document_of(drift.gained_before);
  }
  return document;
}

// The final comparison, where there was one, else what trials have measured of these two plans; the same plan twice is
// a ratio of exactly 1.
api::Ratio speedup_of(const TuningState& state) {
  const auto gain = gained(state);
  const bool is_of_both = gain && state.incumbent.hash != state.initial.hash && state.compares_initial();
  return document_of(is_of_both ? gain->ratio : Ratio{});
}

// What tuning again has gained since the machine changed last.
std::optional<api::Ratio> retuned_of(const TuningState& state) {
  const auto gain = was_tuned_again(state) ? gained(state) : std::nullopt;
  return gain ? std::optional(document_of(gain->ratio)) : std::nullopt;
}

// The mean relative error of predictions, as trials found them and before any calibration: over measured trials, each
// predicted before it ran; where there are none, over the initial plan.
api::PredictionError prediction_error(const TuningState& state) {
  double before = 0;
  double after = 0;
  std::int64_t plans = 0;
  for (const Trial& trial : state.trials) {
    if (trial.measured.steps == 0 || !trial.predicted.by_model()) continue;
    before += std::abs(trial.predicted.raw_ms / trial.measured.mean_ms - 1);
    after += std::abs(trial.predicted.mean_ms / trial.measured.mean_ms - 1);
    ++plans;
  }
  if (plans > 0) return {before / static_cast<double>(plans), after / static_cast<double>(plans), plans};
  if (state.initial_measured.steps == 0 || !state.initial_predicted.by_model()) return {0, 0, 0};
  before = std::abs(state.initial_predicted.raw_ms / state.initial_measured.mean_ms - 1);
  return {before, before, 1};
}

// What was measured or came about, item by item.
void add_lists(const TuningState& state, const std::vector<MeasuredStep>& steps,
               const std::vector<EarlierTrial>& earlier, api::Report& report) {
  for (const Trial& trial : state.trials) report.trials.push_back(document_of(trial));
  for (const EarlierTrial& one : without_kept(earlier, state)) {
    report.earlier_trials.push_back(
        {one.id, one.plan_hash, api::Word<TrialState>(one.state), one.reason, one.predicted_ms, one.measured_ms});
  }
  for (const PassedOver& one : state.passed_over) {
    report.not_tried.push_back({{{one.plan.json}}, one.plan.hash, one.predicted_ms, one.why});
  }
  for (const Convergence& one : state.convergence) {
    report.convergence.push_back(
        {one.seconds, one.evaluations, one.trial, one.best_measured_ms, one.best_predicted_ms});
  }
  for (const Drift& one : state.hardware.drifts) report.drifts.push_back(document_of(one));
  for (const Crash& one : state.crashes) {
    report.crashes.push_back({seconds_between(state.begun_wall_ns, one.wall_ns), one.step, one.plan_hash, one.why});
  }
  for (const Resize& one : state.elastic.resizes) {
    report.resizes.push_back({one.step, one.lost, one.devices, one.joined, one.outcome, said(one.trials_before)});
  }
  for (const MeasuredStep& one : steps) {
    report.steps.push_back({one.launch, one.step, one.epoch, one.trial, one.block, one.warmup, one.wall_ms, one.loss});
  }
}

}  // namespace

std::string report_json(const TuningState& state, const std::string& timelines_json,
                        const std::vector<MeasuredStep>& steps, const std::vector<EarlierTrial>& earlier) {
  const bool compared = state.compared && state.incumbent.hash != state.initial.hash;
  const ProfilingState& profiling = state.profiling;
  api::Report report;
  report.schema = api::ReportVersion::k1;
  report.job = state.job.name;
  report.mode = to_string(state.job.mode);
  report.phase = state.phase;
  report.fingerprint = state.fingerprint;
  report.initial =
      document_of(state.initial, state.initial_predicted, compared ? state.final_initial : state.initial_measured);
  report.adopted = document_of(state.incumbent, state.incumbent_predicted,
                               compared ? state.final_adopted : state.incumbent_measured);
  report.speedup = speedup_of(state);
  report.compared = compared;
  report.gain = gain_of(state);
  report.retuned = retuned_of(state);
  report.loss = loss_check(state);
  report.prediction_error = prediction_error(state);
  report.profiled = {profiling.costs_wanted - std::min(profiling.costs_missing, profiling.costs_wanted),
                     profiling.costs_reused, profiling.near.taken_over, profiling.costs_missing,
                     static_cast<double>(profiling.profiling_ns) / 1e9};
  report.taken_over = taken_over_of(profiling.near);
  report.seconds = seconds_between(state.begun_wall_ns, std::max(state.finished_wall_ns, state.tuned_wall_ns));
  report.tuning_seconds = seconds_between(state.begun_wall_ns, state.tuned_wall_ns);
  report.conclusion = state.conclusion;
  report.failure = state.failure;
  report.recommendation.json = state.recommendation_json;
  report.search = {state.search.evaluations, state.search.searches, state.search.seconds, state.explanation};
  report.overhead = overhead_of(state);
  report.noise = noise_of(steps);
  const auto timelines = api::parse<api::Timelines>(timelines_json);
  if (timelines.ok()) report.timeline = *timelines;
  report.calibration.json = state.calibration_json;
  report.cluster.json = state.cluster.json;
  report.launches = state.launch;
  add_lists(state, steps, earlier, report);
  return api::to_json(report);
}

std::vector<api::TrialStage> trial_stages(const Trial& trial) {
  std::vector<api::TrialStage> stages(std::max(trial.predicted_terms.size(), trial.measured_terms.size()));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s] = {terms_of(trial.predicted_terms, s), measured_terms_of(trial, s)};
  }
  return stages;
}

std::optional<api::Gain> gain_of(const TuningState& state) {
  return document_of(told_gain(state));
}

std::optional<api::Gain> document_of(const std::optional<ToldGain>& told) {
  if (!told) return std::nullopt;
  api::Gain gain;
  static_cast<api::Ratio&>(gain) = document_of(told->ratio);
  gain.by = told->by;
  gain.trials.assign(told->trials.begin(), told->trials.end());
  gain.until_step = told->until_step;
  return gain;
}

api::Ratio document_of(const Ratio& ratio) {
  if (!ratio.has_interval()) return {ratio.ratio, std::nullopt, std::nullopt};
  return {ratio.ratio, ratio.low, ratio.high};
}

api::SwitchPhases document_of(const ChangePhases& phases) {
  api::SwitchPhases document;  // parts that are not known are 0
  api::SwitchPhases::fields([&](const char*, auto part, auto...) { document.*part = std::max(0.0, phases.*part); });
  return document;
}

api::Interval interval_of(const Predicted& predicted) {
  return {predicted.low_ms, predicted.high_ms};
}

api::Overhead overhead_of(const TuningState& state) {
  return {state.overhead_ms(), state.overhead_share(), state.job.trials.overhead};
}

}  // namespace trimtab::coordinator
