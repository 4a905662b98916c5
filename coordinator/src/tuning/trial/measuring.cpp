// Measuring: the initial plan, trials, the final comparison.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kLeastComparisonBlocks = 2;
// Blocks of the initial plan alone: they cost nothing and show the job's noise. At most a tenth of the job.
constexpr std::int64_t kInitialBlocks = 4;
constexpr std::int64_t kInitialShare = 10;
constexpr std::int32_t kMostLeftOut = 2;      // steps of a trial's block that cannot be
constexpr std::int32_t kUnexpectedSteps = 2;  // in a row, before ranks are taken to run another plan

Blocks in_blocks(const std::vector<double>& steps, std::int32_t size) {
  Blocks blocks;
  for (const double step : steps) {
    if (blocks.empty() || std::cmp_equal(blocks.back().size(), size)) blocks.emplace_back();
    blocks.back().push_back(step);
  }
  return blocks;
}

const PlanText& first_plan(const TuningState& state) {
  return state.phase == Phase::kComparing ? state.compared_plan() : state.incumbent;
}

const PlanText& second_plan(const TuningState& state) {
  return state.phase == Phase::kComparing ? state.incumbent : state.trials.back().plan;
}

}  // namespace

const PlanText& Tuning::expected_plan() const {
  if (state_.phase == Phase::kMeasuring || !interleaving_ || state_.doing != Doing::kMeasuring) return state_.incumbent;
  return interleaving_->second_is_next() ? second_plan(state_) : first_plan(state_);
}

void Tuning::on_step(const JobStep& step) {
  if (state_.phase == Phase::kUntuned) {
    state_.doing = Doing::kNothing;
    state_.untuned_losses.push_back({step.step, step.loss, step.samples});
    return;
  }
  take_step(step);
  hardware_.account_look(step);
  if (spoils(step)) return;
  if (state_.doing == Doing::kLaunching) return recovered();
  // Ranks that are being ended may tell of steps yet.
  const bool under_way = change_ || state_.wants_no_ranks();
  if (change_ || state_.doing != Doing::kMeasuring) overhead_.add_step_between(step);
  if (under_way || !lost_.empty() || !steers_ranks(state_.phase)) return;
  const std::string* const plan = state_.hash_of(step.epoch);
  const bool expected = plan != nullptr && *plan == expected_plan().hash;
  if (!expected) {
    if (++unexpected_steps_ >= kUnexpectedSteps) unexpected_plan();
    return;
  }
  unexpected_steps_ = 0;
  if (state_.is_restarted()) go_on_trying();
  const bool is_warm = since_change_.settled();
  if (state_.believes(step.wall_ms)) since_change_.add(step.wall_ms, step.prepared);
  if (is_warm && *plan == state_.incumbent.hash) watch_for_drift(step);
  if (state_.doing == Doing::kMeasuring && interleaving_) measure_step(step);
}

void Tuning::take_step(const JobStep& step) {
  // What a trial's launch trains is thrown away.
  if (state_.runs_trial()) return running_.learn_of_all(step.epoch);
  const bool is_new = state_.losses.empty() || step.step > state_.losses.back().step;
  if (is_new && std::ssize(state_.losses) < state_.job.trials.loss_check_steps) {
    state_.losses.push_back({step.step, step.loss, step.samples});
  }
  overhead_.add_lost_steps(step.step);
  elastic_.tell_where_it_goes_on(step.step);
  overhead_.add_training(step);
  state_.step = step.step;
  state_.loss = step.loss;
  state_.step_ms = step.wall_ms;
  if (!change_) running_.learn_of_all(step.epoch);
}

// A change that was cancelled took effect all the same, or somebody else changed the plan.
void Tuning::unexpected_plan() {
  unexpected_steps_ = 0;
  out_.note("warning", "the ranks run another plan than the one that was agreed");
  if (state_.has_trial() && state_.doing != Doing::kAwaitingApproval) {
    fail_trial(FailureReason::kUnexpectedPlan, "the ranks ran another plan in the middle of the trial", false);
  }
  roll_back();
}

void Tuning::begin_measuring() {
  const TrialSettings& settings = state_.job.trials;
  const std::int64_t affordable = state_.remaining_steps() / (kInitialShare * settings.measure_steps);
  const auto blocks = static_cast<std::int32_t>(std::clamp<std::int64_t>(affordable, 1, kInitialBlocks));
  interleaving_.emplace(BlockSizes{1, settings.warmup_steps, blocks * settings.measure_steps});
  begin_block(true);
}

void Tuning::begin_block(bool changed) {
  state_.doing = Doing::kMeasuring;
  measured_at_ = now_.monotonic;
  left_out_ = 0;
  overhead_.begin_block();
  clock_check_.begin_block();
  interleaving_->begin_block(changed);
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
  if (!state_.believes(step.wall_ms)) return leave_out(step);
  measured_at_ = now_.monotonic;
  const bool warmup = interleaving_->warming();
  clock_check_.add(interleaving_->second_is_next(), !warmup, now_.monotonic, step.wall_ms);
  record_step(step, warmup);
  const bool has_cost = overhead_.add_block_step(step, *interleaving_);
  const bool of_candidate = state_.has_trial() && interleaving_->second_is_next();
  if (of_candidate && !warmup) trials_.set_state(TrialState::kMeasuring);
  const bool block_done = interleaving_->add(step.wall_ms, step.prepared);
  if (of_candidate) trials_.add_candidate_step(warmup, step.wall_ms, block_done ? &interleaving_->second() : nullptr);
  if (state_.phase == Phase::kMeasuring) {
    if (block_done) measured_initial();
    return;
  }
  if (state_.phase == Phase::kTrials && !block_done && interleaving_->second_surely_worse()) {
    const Ratio ratio = compare(interleaving_->first(), interleaving_->second(), state_.noise);
    return conclude_trial({RaceState::kSlower, ratio}, FailureReason::kSlower);
  }
  if (!block_done && has_cost && overhead_left_ms(view_, &*interleaving_) < 0) return stop_for_overhead();
  if (block_done) continue_interleaving();
}

// An odd step that cannot be is no reason to give up a trial; several in one block are.
void Tuning::leave_out(const JobStep& step) {
  clock_check_.interrupt();
  const std::string what =
      "step " + std::to_string(step.step) + " is told to have taken " + format_number(step.wall_ms) + " ms";
  if (++left_out_ == 1) out_.note("warning", what + ": it is left out");
  if (left_out_ > kMostLeftOut && state_.phase == Phase::kTrials)
    unbelievable(FailureReason::kCorruptMeasurement, what);
}

// A trial whose measurements cannot be believed fails, through no fault of its plan.
void Tuning::unbelievable(const Reason& reason, const std::string& message) {
  fail_trial(reason, message, false);
  roll_back();
}

// Ranks live, and yet no step comes that all of them tell of.
void Tuning::tick_measuring() {
  if (state_.doing != Doing::kMeasuring || !interleaving_) return;
  const Nanoseconds deadline = state_.job.trials.deadline;
  const bool live = now_.monotonic - moved_at_ <= deadline;
  if (!live || now_.monotonic - measured_at_ <= deadline) return;
  const std::string missing = assembly_.missing_ranks();
  const std::string why = "no step was told of by every rank, in a time that can be, within the deadline" +
                          (missing.empty() ? std::string() : "; missing: rank " + missing);
  if (state_.phase == Phase::kTrials) return unbelievable(FailureReason::kNoMeasurement, why);
  out_.note("warning", why);
  interleaving_.reset();
  state_.conclusion = why;
  end_tuning();
}

void Tuning::measured_initial() {
  const Blocks blocks = in_blocks(interleaving_->first().front(), state_.job.trials.measure_steps);
  state_.initial_measured = summarize(blocks, state_.noise);
  state_.noise.learn_from_one_plan(blocks);
  state_.incumbent_measured = state_.initial_measured;
  state_.measured_step = state_.step;
  interleaving_.reset();
  if (state_.has_grown() && !settle_growth()) return;
  trials_.observe(state_.initial, state_.initial_measured);
  trials_.add_convergence(0);
  out_.note("result", "the initial plan takes " + format_ms(state_.initial_measured.mean_ms) + " a step");
  if (state_.job.mode == JobMode::kObserve) {
    state_.conclusion = "mode observe: nothing is proposed";
    return end_tuning();
  }
  enter(Phase::kTrials);
  settled();
}

void Tuning::continue_interleaving() {
  if (state_.phase == Phase::kTrials && interleaving_->pairs_are_whole()) return judge_race();
  if (interleaving_->done()) return conclude_comparison();
  next_block();
}

void Tuning::next_block() {
  const PlanText& plan = interleaving_->second_is_next() ? second_plan(state_) : first_plan(state_);
  if (!running_.is(plan)) return begin_change(plan, ChangePurpose::kBlock);
  begin_block(!since_change_.settled());
}

void Tuning::begin_comparison() {
  // The adopted plan has failed meanwhile.
  if (state_.incumbent.hash == state_.compared_plan().hash) return end_tuning();
  if (const std::string why = no_comparison(view_); !why.empty()) {
    out_.note("warning", "the " + state_.compared_word() + " and the adopted plan are not compared once more: " + why);
    return end_tuning();
  }
  ++state_.comparisons_begun;
  out_.changed = true;
  interleaving_.emplace(BlockSizes{kComparisonBlocks, state_.job.trials.warmup_steps, state_.job.trials.measure_steps});
  continue_interleaving();
}

// It costs more than was thought: what there is of it counts where it is enough.
void Tuning::give_up_comparison() {
  const bool is_enough = interleaving_->block() >= 2 * kLeastComparisonBlocks;
  out_.note("warning", "the comparison of the " + state_.compared_word() +
                           " and the adopted plan ends early: trials.overhead is used up");
  if (is_enough) return conclude_comparison();
  interleaving_.reset();
  end_tuning();
}

// The next step might be beyond what tuning may cost: what is under way ends here, and the incumbent stays.
void Tuning::stop_for_overhead() {
  if (state_.phase == Phase::kComparing) return give_up_comparison();
  const Blocks& second = interleaving_->second();
  if (second.empty() || second.front().empty()) {
    fail_trial(FailureReason::kOverhead, "trials.overhead was used up before a step of its plan was measured", false);
    return roll_back();
  }
  conclude_trial({RaceState::kUnsure, compare(interleaving_->first(), second, state_.noise)}, FailureReason::kOverhead);
}

void Tuning::conclude_comparison() {
  const Measured other = summarize(interleaving_->first(), state_.noise);
  const Measured adopted = summarize(interleaving_->second(), state_.noise);
  const Ratio ratio = compare(interleaving_->first(), interleaving_->second(), state_.noise);
  interleaving_.reset();
  state_.incumbent_measured = adopted;
  if (state_.compares_initial()) {
    state_.final_initial = other;
    state_.final_adopted = adopted;
    state_.final_ratio = ratio;
    state_.compared = true;
  } else {
    state_.retuned_ratio = ratio;
    state_.retuned_compared = true;
  }
  out_.note("result", "the adopted plan is " + format_fixed(ratio.ratio, 2) + "x as fast as the " +
                          state_.compared_word() + " one");
  if (ratio.high < 1) leave_adopted(other, ratio);
  end_tuning();
}

void Tuning::leave_adopted(const Measured& other, const Ratio& ratio) {
  const std::string back = "go back to the " + state_.compared_word() + " plan";
  out_.note("warning", "it is surely slower after all: " + back);
  out_.decide(back, "compared at the end, the adopted one is surely slower");
  state_.replaced.clear();
  hardware_.change_plan(ratio.ratio, ratio.low, ratio.high);
  state_.incumbent = state_.compared_plan();
  state_.incumbent_predicted = state_.compares_initial() ? state_.initial_predicted : state_.retuned_from.predicted;
  state_.incumbent_measured = other;
}

}  // namespace trimtab::coordinator
