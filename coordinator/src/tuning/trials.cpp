// Measuring: the initial plan, trials, the final comparison.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kComparisonBlocks = 3;
constexpr std::int32_t kComparisons = 2;      // begun, at most
constexpr std::int32_t kUnexpectedSteps = 2;  // in a row, before ranks are taken to run another plan

}  // namespace

const PlanText& Tuning::first_plan() const {
  return state_.phase == Phase::kComparing ? state_.initial : state_.incumbent;
}

const PlanText& Tuning::second_plan() const {
  return state_.phase == Phase::kComparing ? state_.incumbent : state_.trials.back().plan;
}

const PlanText& Tuning::expected_plan() const {
  if (state_.phase == Phase::kMeasuring || !interleaving_ || state_.doing != Doing::kMeasuring) return state_.incumbent;
  return interleaving_->second_is_next() ? second_plan() : first_plan();
}

void Tuning::on_step(const JobStep& step) {
  if (state_.phase == Phase::kUntuned) {
    state_.doing = Doing::kNothing;
    state_.untuned_losses.push_back({step.step, step.loss, step.samples});
    return;
  }
  take_step(step);
  if (state_.doing == Doing::kLaunching) return recovered();
  if (change_ || !lost_.empty() || !steers_ranks(state_.phase)) return;
  const auto epoch = state_.epoch_hashes.find(step.epoch);
  const bool expected = epoch != state_.epoch_hashes.end() && epoch->second == expected_plan().hash;
  if (!expected) {
    if (++unexpected_steps_ >= kUnexpectedSteps) unexpected_plan();
    return;
  }
  unexpected_steps_ = 0;
  if (state_.doing == Doing::kMeasuring && interleaving_) measure_step(step);
}

void Tuning::take_step(const JobStep& step) {
  // What a trial's launch trains is thrown away.
  if (runs_trial()) return learn_common_epoch(step.epoch);
  const bool is_new = state_.losses.empty() || step.step > state_.losses.back().step;
  if (is_new && std::ssize(state_.losses) < state_.job.trials.loss_check_steps) {
    state_.losses.push_back({step.step, step.loss, step.samples});
  }
  state_.step = step.step;
  state_.loss = step.loss;
  state_.step_ms = step.wall_ms;
  if (++steps_since_launch_ >= 10) state_.relaunches = 0;
  if (!change_) learn_common_epoch(step.epoch);
}

// A change that was cancelled took effect all the same, or somebody else changed the plan.
void Tuning::unexpected_plan() {
  unexpected_steps_ = 0;
  note("warning", "the ranks run another plan than the one that was agreed");
  if (state_.has_trial() && state_.doing != Doing::kAwaitingApproval) {
    fail_trial("unexpected plan", "the ranks ran another plan in the middle of the trial", false);
  }
  roll_back();
}

void Tuning::begin_measuring() {
  state_.doing = Doing::kMeasuring;
  interleaving_.emplace(BlockSizes{1, state_.job.trials.warmup_steps, state_.job.trials.measure_steps});
  interleaving_->begin_block(true);
}

void Tuning::record_step(const JobStep& step, bool warmup) {
  MeasuredStep row{state_.launch, step.step, step.epoch, 0, interleaving_->block(), warmup, step.wall_ms, step.loss};
  if (state_.has_trial()) {
    row.trial = state_.trials.back().id;
    ++state_.trials.back().steps;
  }
  steps_.push_back(row);
}

void Tuning::measure_step(const JobStep& step) {
  const bool warmup = interleaving_->warming();
  record_step(step, warmup);
  if (state_.has_trial() && interleaving_->second_is_next() && !warmup) set_trial(TrialState::kMeasuring);
  const bool block_done = interleaving_->add(step.wall_ms);
  if (state_.phase == Phase::kMeasuring) {
    if (block_done) measured_initial();
    return;
  }
  if (state_.phase == Phase::kTrials && !block_done && interleaving_->second_surely_worse()) {
    return conclude_trial(true);
  }
  if (block_done) continue_interleaving();
}

void Tuning::measured_initial() {
  state_.initial_measured = summarize(interleaving_->first());
  state_.incumbent_measured = state_.initial_measured;
  interleaving_.reset();
  observe(state_.initial, state_.initial_measured);
  add_convergence(0);
  note("result", "the initial plan takes " + format_ms(state_.initial_measured.mean_ms) + " a step");
  if (state_.job.mode == JobMode::kObserve) {
    state_.conclusion = "mode observe: nothing is proposed";
    return end_tuning();
  }
  enter(Phase::kTrials);
  settled();
}

void Tuning::continue_interleaving() {
  if (interleaving_->done()) return interleaving_done();
  const PlanText& plan = interleaving_->second_is_next() ? second_plan() : first_plan();
  if (!running(plan)) return begin_change(plan, ChangePurpose::kBlock);
  state_.doing = Doing::kMeasuring;
  interleaving_->begin_block(false);
}

void Tuning::interleaving_done() {
  if (state_.phase == Phase::kComparing) return conclude_comparison();
  if (extend_trial()) return continue_interleaving();
  conclude_trial(false);
}

void Tuning::begin_comparison() {
  const std::int64_t needed =
      2 * kComparisonBlocks * (state_.job.trials.warmup_steps + state_.job.trials.measure_steps);
  if (state_.comparisons_begun >= kComparisons || remaining_steps() < needed) {
    note("warning", "initial and adopted plan are not compared once more: too few steps are left, or it failed before");
    return end_tuning();
  }
  ++state_.comparisons_begun;
  transition();
  interleaving_.emplace(BlockSizes{kComparisonBlocks, state_.job.trials.warmup_steps, state_.job.trials.measure_steps});
  continue_interleaving();
}

void Tuning::conclude_comparison() {
  state_.final_initial = summarize(interleaving_->first());
  state_.final_adopted = summarize(interleaving_->second());
  state_.final_ratio = compare(interleaving_->first(), interleaving_->second());
  state_.compared = true;
  state_.incumbent_measured = state_.final_adopted;
  interleaving_.reset();
  note("result", "the adopted plan is " + format_fixed(state_.final_ratio.ratio, 2) + "x as fast as the initial one");
  if (state_.final_ratio.high < 1) {
    note("warning", "it is surely slower after all: the job goes back to the initial plan");
    state_.incumbent = state_.initial;
    state_.incumbent_predicted = state_.initial_predicted;
    state_.incumbent_measured = state_.final_initial;
  }
  end_tuning();
}

// A step's peak is that of the plan that it ran. Taken as it comes: a plan that ran out of memory may end before all
// ranks have told of its step.
void Tuning::take_peak(std::int32_t rank, const RankStep& step) {
  const auto plan = state_.epoch_hashes.find(step.epoch);
  if (plan == state_.epoch_hashes.end()) return;
  auto& peaks = peak_bytes_[plan->second];
  peaks.resize(static_cast<std::size_t>(world_size()));
  peaks[rank] = std::max(peaks[rank], static_cast<double>(step.peak_bytes));
}

void Tuning::observe(const PlanText& plan, const Measured& measured) {
  std::vector<double> peak_bytes = peak_bytes_[plan.hash];
  // A peak of 0 says that the rank does not report one.
  if (std::find(peak_bytes.begin(), peak_bytes.end(), 0.0) != peak_bytes.end()) peak_bytes.clear();
  state_.observations.push_back({plan, measured.mean_ms, measured.sigma_ms(), std::move(peak_bytes)});
}

void Tuning::add_convergence(std::int32_t trial) {
  const double seconds = static_cast<double>(now_.wall.count() - state_.begun_wall_ns) / 1e9;
  state_.convergence.push_back(
      {seconds, state_.evaluations, trial, state_.incumbent_measured.mean_ms, state_.incumbent_predicted.mean_ms});
}

}  // namespace trimtab::coordinator
