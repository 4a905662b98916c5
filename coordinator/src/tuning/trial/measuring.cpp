// Measuring: the initial plan, trials, the final comparison.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/trial/trying.hpp"

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

const PlanText& next_plan(const TuningState& state, const Interleaving& blocks) {
  return blocks.second_is_next() ? second_plan(state) : first_plan(state);
}

}  // namespace

void Trying::take(const JobStep& step) {
  TuningState& state = m_.state;
  // What a trial's launch trains is thrown away.
  if (state.runs_trial()) return m_.running.learn_of_all(step.epoch);
  m_.overhead.add_lost_steps(step.step);
  m_.elastic.tell_where_it_goes_on(step.step);
  m_.overhead.add_training(step);
  state.take(step);
  if (m_.activity.get<PlanChange>() == nullptr) m_.running.learn_of_all(step.epoch);
}

// A change that was cancelled took effect all the same, or somebody else changed the plan.
std::optional<Next> Trying::unexpected(const JobStep& step) {
  const auto* const measuring = m_.activity.get<Measuring>();
  const bool in_turn = measuring != nullptr && m_.state.phase != Phase::kMeasuring;
  const PlanText& expected = in_turn ? next_plan(m_.state, measuring->blocks) : m_.state.incumbent;
  const std::string* const plan = m_.state.hash_of(step.epoch);
  if (plan != nullptr && *plan == expected.hash) {
    m_.unexpected_steps = 0;
    return std::nullopt;
  }
  if (++m_.unexpected_steps < kUnexpectedSteps) return Next{};
  m_.unexpected_steps = 0;
  m_.out.note("warning", "the ranks run another plan than the one that was agreed");
  if (m_.state.has_trial() && m_.state.doing != Doing::kAwaitingApproval) {
    m_.fail_trial(FailureReason::kUnexpectedPlan, "the ranks ran another plan in the middle of the trial", false);
  }
  return Next{Next::kRollBack};
}

Next Trying::measure_initial() {
  const TrialSettings& settings = m_.state.job.trials;
  const std::int64_t affordable = m_.state.remaining_steps() / (kInitialShare * settings.measure_steps);
  const auto blocks = static_cast<std::int32_t>(std::clamp<std::int64_t>(affordable, 1, kInitialBlocks));
  const BlockSizes sizes{1, settings.warmup_steps, blocks * settings.measure_steps};
  m_.activity.become(Doing::kMeasuring, Measuring{Interleaving(sizes)});
  m_.begin_block(true);
  return {};
}

void Trying::record(const JobStep& step, bool warmup) {
  MeasuredStep row{m_.state.launch, step.step, step.epoch, 0, blocks().block(), warmup, step.wall_ms, step.loss};
  if (m_.state.has_trial()) {
    row.trial = m_.state.trials.back().id;
    ++m_.state.trials.back().steps;
  }
  m_.out.steps.push_back(row);
}

Next Trying::measure(const JobStep& step) {
  if (!m_.state.believes(step.wall_ms)) return leave_out(step);
  Measuring& measuring = *m_.activity.get<Measuring>();
  Interleaving& blocks = measuring.blocks;
  measuring.moved_at = m_.now.monotonic;
  const bool warmup = blocks.warming();
  measuring.clock.add(blocks.second_is_next(), !warmup, m_.now.monotonic, step.wall_ms);
  record(step, warmup);
  const bool has_cost = m_.overhead.add_block_step(step, blocks);
  const bool of_candidate = m_.state.has_trial() && blocks.second_is_next();
  if (of_candidate && !warmup) m_.trials.set_state(TrialState::kMeasuring);
  const bool is_done = blocks.add(step.wall_ms, step.prepared);
  if (of_candidate) m_.trials.add_candidate_step(warmup, step.wall_ms, is_done ? &blocks.second() : nullptr);
  if (m_.state.phase == Phase::kMeasuring) return is_done ? measured_initial() : Next{};
  if (m_.state.phase == Phase::kTrials && !is_done && blocks.second_surely_worse()) {
    const Ratio ratio = compare(blocks.first(), blocks.second(), m_.state.noise);
    return conclude_trial({RaceState::kSlower, ratio}, FailureReason::kSlower);
  }
  if (!is_done && has_cost && overhead_left_ms(m_.view, &blocks) < 0) return stop_for_overhead();
  return is_done ? block_done() : Next{};
}

// An odd step that cannot be is no reason to give up a trial; several in one block are.
Next Trying::leave_out(const JobStep& step) {
  Measuring& measuring = *m_.activity.get<Measuring>();
  measuring.clock.interrupt();
  const std::string what =
      "step " + std::to_string(step.step) + " is told to have taken " + format_number(step.wall_ms) + " ms";
  if (++measuring.left_out == 1) m_.out.note("warning", what + ": it is left out");
  const bool many = measuring.left_out > kMostLeftOut && m_.state.phase == Phase::kTrials;
  return many ? unbelievable(FailureReason::kCorruptMeasurement, what) : Next{};
}

Next Trying::unbelievable(const Reason& reason, const std::string& message) {
  m_.fail_trial(reason, message, false);
  return {Next::kRollBack};
}

Next Trying::tick() {
  const auto* const measuring = m_.activity.get<Measuring>();
  const Nanoseconds deadline = m_.state.job.trials.deadline;
  if (measuring == nullptr || m_.now.monotonic - measuring->moved_at <= deadline) return {};
  const std::string missing = m_.assembly.missing_ranks();
  const std::string why = "no step was told of by every rank, in a time that can be, within the deadline" +
                          (missing.empty() ? std::string() : "; missing: rank " + missing);
  if (m_.state.phase == Phase::kTrials) return unbelievable(FailureReason::kNoMeasurement, why);
  m_.out.note("warning", why);
  m_.state.conclusion = why;
  return {Next::kEndTuning};
}

Next Trying::measured_initial() {
  TuningState& state = m_.state;
  const Blocks measured = in_blocks(blocks().first().front(), state.job.trials.measure_steps);
  state.initial_measured = summarize(measured, state.noise);
  state.noise.learn_from_one_plan(measured);
  state.incumbent_measured = state.initial_measured;
  state.measured_step = state.step;
  m_.activity.become(Doing::kNothing);
  if (state.has_grown()) {
    const double before_ms = state.elastic.before.measured.mean_ms;
    const Measured& now = state.initial_measured;
    if (const std::string why = m_.elastic.judge_growth(now); !why.empty()) {
      m_.overhead.add_growth(std::max(0.0, now.mean_ms - before_ms) * now.steps);
      return {Next::kGoBack, why};
    }
  }
  m_.trials.observe(state.initial, state.initial_measured);
  m_.trials.add_convergence(0);
  m_.out.note("result", "the initial plan takes " + format_ms(state.initial_measured.mean_ms) + " a step");
  if (state.job.mode != JobMode::kObserve) return {Next::kTune};
  state.conclusion = "mode observe: nothing is proposed";
  return {Next::kEndTuning};
}

Next Trying::block_done() {
  if (m_.state.phase == Phase::kTrials && blocks().pairs_are_whole()) return judge_race();
  return blocks().done() ? conclude_comparison() : next_block();
}

Next Trying::next_block() {
  auto* const measuring = m_.activity.get<Measuring>();
  const PlanText& plan = next_plan(m_.state, measuring->blocks);
  // A job that is stopped just after its checkpoint cannot train on meanwhile: its own plan runs apart, too.
  const bool stops_now = m_.state.is_restarted() && !m_.state.runs_trial() && !m_.state.stops.saves_at_stop;
  if (m_.running.is(plan) && !stops_now) {
    m_.begin_block(!m_.since_change.settled());
  } else {
    changes_.begin(plan, std::move(*measuring));
  }
  return {};
}

Next Trying::begin_comparison() {
  // The adopted plan has failed meanwhile.
  if (m_.state.incumbent.hash == m_.state.compared_plan().hash) return {Next::kEndTuning};
  if (const std::string why = no_comparison(m_.view); !why.empty()) {
    m_.out.note("warning",
                "the " + m_.state.compared_word() + " and the adopted plan are not compared once more: " + why);
    return {Next::kEndTuning};
  }
  ++m_.state.comparisons_begun;
  m_.out.changed = true;
  const TrialSettings& settings = m_.state.job.trials;
  const BlockSizes sizes{kComparisonBlocks, settings.warmup_steps, block_steps(m_.state)};
  m_.activity.become(Doing::kMeasuring, Measuring{Interleaving(sizes)});
  return next_block();
}

// It costs more than was thought: what there is of it counts where it is enough.
Next Trying::give_up_comparison() {
  m_.out.note("warning", "the comparison of the " + m_.state.compared_word() +
                             " and the adopted plan ends early: trials.overhead is used up");
  const bool is_enough = blocks().block() >= 2 * kLeastComparisonBlocks;
  return is_enough ? conclude_comparison() : Next{Next::kEndTuning};
}

// The next step might be beyond what tuning may cost: what is under way ends here, and the incumbent stays.
Next Trying::stop_for_overhead() {
  if (m_.state.phase == Phase::kComparing) return give_up_comparison();
  const Blocks& second = blocks().second();
  if (second.empty() || second.front().empty()) {
    m_.fail_trial(FailureReason::kOverhead, "trials.overhead was used up before a step of its plan was measured",
                  false);
    return {Next::kRollBack};
  }
  const Ratio ratio = compare(blocks().first(), second, m_.state.noise);
  return conclude_trial({RaceState::kUnsure, ratio}, FailureReason::kOverhead);
}

Next Trying::conclude_comparison() {
  TuningState& state = m_.state;
  const Measured other = summarize(blocks().first(), state.noise);
  const Measured adopted = summarize(blocks().second(), state.noise);
  const Ratio ratio = compare(blocks().first(), blocks().second(), state.noise);
  m_.activity.become(Doing::kNothing);
  state.incumbent_measured = adopted;
  if (state.compares_initial()) {
    state.final_initial = other;
    state.final_adopted = adopted;
    state.final_ratio = ratio;
    state.compared = true;
  } else {
    state.retuned_ratio = ratio;
    state.retuned_compared = true;
  }
  m_.out.note("result", "the adopted plan is " + format_fixed(ratio.ratio, 2) + "x as fast as the " +
                            state.compared_word() + " one");
  if (ratio.high < 1) leave_adopted(other, ratio);
  return {Next::kEndTuning};
}

void Trying::leave_adopted(const Measured& other, const Ratio& ratio) {
  const std::string back = "go back to the " + m_.state.compared_word() + " plan";
  m_.out.note("warning", "it is surely slower after all: " + back);
  m_.out.decide(back, "compared at the end, the adopted one is surely slower");
  m_.state.replaced.clear();
  m_.hardware.change_plan(ratio.ratio, ratio.low, ratio.high);
  m_.state.incumbent = m_.state.compared_plan();
  m_.state.incumbent_predicted =
      m_.state.compares_initial() ? m_.state.initial_predicted : m_.state.retuned_from.predicted;
  m_.state.incumbent_measured = other;
}

}  // namespace trimtab::coordinator
