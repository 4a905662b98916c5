// A trial: which plan, its beginning, its states, its end.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/search/choice.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/trial/gains.hpp"
#include "tuning/trial/trying.hpp"

namespace trimtab::coordinator {
namespace {

// A trial that is not sure of its gain goes on, up to so many times the blocks that the job asks for; up to so many in
// a job that has this many times the trial's steps before it, where a gain of a percent or two pays for looking longer.
constexpr std::int32_t kMostRounds = 3;
constexpr std::int32_t kMostRoundsOfLong = 6;
constexpr std::int64_t kLong = 20;
constexpr std::size_t kReplaced = 8;  // plans that are remembered to go back to, one after the other

constexpr const char* kAllow =
    "'trimtab tune --allow-restarts', or allow_restarts = true in job.toml: the job is then stopped just after a "
    "checkpoint that it has written, and goes on from there";

// What it may take beside the incumbent. Own knobs are not predicted: what trials have not shown may be either way.
std::string promise(const Predicted& predicted, const TuningState& state) {
  const std::string time =
      predicted.by_model() ? "predicted " + format_ms(predicted.mean_ms)
                           : "expected to take " + format_ms(predicted.low_ms) + " to " + format_ms(predicted.high_ms);
  return time + " a step beside the incumbent's measured " + format_ms(state.incumbent_measured.mean_ms);
}

std::string payback(const Trial& trial) {
  const std::string phases = trial.change_phases.words();
  return "; the change, which took " + format_ms(trial.switch_ms) + (phases.empty() ? "" : " (" + phases + ")") +
         ", has paid after " + std::to_string(trial.break_even_steps) + " steps";
}

RaceRules race_rules(const TuningState& state, const Interleaving& blocks) {
  return {blocks.blocks(), state.job.trials.minimum_gain, state.trials.back().switch_ms, state.remaining_steps()};
}

}  // namespace

void Trying::take_search(const SearchReply& reply) {
  m_.state.calibration_json = reply.calibration_json;
  m_.state.incumbent_predicted = reply.incumbent.predicted;
  m_.state.explanation = reply.explanation;
  if (!reply.calibration_json.empty()) m_.out.act(RememberCalibration{reply.calibration_json});
  m_.out.changed = true;
}

void Trying::pass_over(const PassedOver& copy) {
  const auto again = [&](const PassedOver& one) { return one.plan.hash == copy.plan.hash; };
  if (std::ranges::any_of(m_.state.passed_over, again)) return;
  m_.out.note("plan", "a plan predicted at " + format_ms(copy.predicted_ms) + " is not tried: it " + copy.why,
              copy.plan.json);
  m_.state.passed_over.push_back(copy);
}

Next Trying::recommend(const PricedPlan* best) {
  const bool may_be = best != nullptr && !m_.state.has_failed_in_trial(best->plan.hash);
  if (may_be && best->predicted.mean_ms < worthwhile_ms(m_.state)) {
    m_.state.recommendation_json = best->plan.json;
    m_.out.note("result", "a faster plan is recommended: predicted " + format_ms(best->predicted.mean_ms) + " a step",
                best->plan.json);
  }
  return {Next::kFinishTrials, "mode recommend: the recommendation stands, nothing is tried"};
}

// A plan that may be faster and is not tried is named all the same, with what a trial of it needs. It is a
// recommendation where it is expected to be faster: of a knob's value that nobody has measured nothing is. One whose
// trial has failed is none, though nobody blames it.
Next Trying::leave_untried(const PricedPlan& best, const std::string& why, const std::string& needed) {
  if (m_.state.has_failed_in_trial(best.plan.hash)) {
    m_.out.note("result",
                "a plan whose trial failed is not tried again" +
                    (needed.empty() ? "" : ". Another trial of it needs " + needed),
                best.plan.json);
    return {Next::kFinishTrials, why};
  }
  const bool is_expected_faster = best.predicted.mean_ms < worthwhile_ms(m_.state);
  m_.state.recommendation_json = is_expected_faster ? best.plan.json : "";
  m_.out.note("result",
              "a plan that may be faster is not tried: " + promise(best.predicted, m_.state) +
                  (needed.empty() ? "" : ". A trial of it needs " + needed),
              best.plan.json);
  return {Next::kFinishTrials, why};
}

Next Trying::decide(const SearchReply& reply) {
  if (!reply.error.empty()) return {Next::kSearchFailed, "the search failed: " + reply.error};
  take_search(reply);
  m_.hardware.note_stale(reply);
  const Choice choice = choose(m_.state, reply);
  for (const PassedOver& one : choice.near_copies) pass_over(one);
  const PricedPlan* const best = choice.best;
  if (!reply.infeasible.empty()) m_.out.note("warning", "the search found no plan that fits: " + reply.infeasible);
  if (m_.state.job.mode == JobMode::kRecommend) return recommend(best);
  if (best == nullptr || optimistic_ms(m_.state, *best) >= worthwhile_ms(m_.state)) {
    return {Next::kFinishTrials, "no plan that has not been tried may beat the incumbent by " +
                                     format_number(m_.state.job.trials.minimum_gain * 100) + " %"};
  }
  if (m_.state.trials_made() >= m_.state.job.trials.max_trials) {
    return {Next::kFinishTrials, "the most trials that the job allows have been made"};
  }
  if (m_.state.is_restarted() && !m_.state.stops.refused.empty()) {
    return leave_untried(*best, m_.state.stops.refused, "");
  }
  if (m_.state.is_restarted() && !m_.state.job.allow_restarts) {
    return leave_untried(*best, "a trial would stop the job, and nobody has allowed that", kAllow);
  }
  if (const auto dear = too_dear(*best)) return leave_untried(*best, dear->first, dear->second);
  if (!enough_steps_for_trial(m_.state)) {
    return leave_untried(*best, "too few steps are left for another trial", steps_needed_for_trial(m_.state));
  }
  const bool in_time = enough_walltime_for(m_.state.job.trials.blocks, m_.state, m_.now);
  if (!in_time) return leave_untried(*best, "too little walltime is left for another trial", "");
  const bool asks = m_.state.job.mode == JobMode::kApprove;
  if (asks || !m_.state.is_restarted() || m_.checkpoints.may_stop()) return begin_trial(*best);
  waiting_ = *best;
  m_.activity.become(Doing::kNothing);
  m_.checkpoints.announce();
  return {};
}

std::optional<std::pair<std::string, std::string>> Trying::too_dear(const PricedPlan& plan) {
  const std::string refused = m_.state.is_restarted() ? m_.checkpoints.price_copy() : "";
  if (!refused.empty()) return std::pair(refused, std::string());
  const std::string spent = overhead_spent(m_.state, plan);
  return spent.empty() ? std::nullopt : std::optional(std::pair(spent, overhead_needed(m_.state, plan)));
}

Next Trying::start_approved() {
  PricedPlan plan;
  plan.plan = m_.state.trials.back().plan;
  plan.predicted = m_.state.trials.back().predicted;
  const auto dear = too_dear(plan);
  if (!dear) return start_trial();
  m_.fail_trial(FailureReason::kWithdrawn, dear->first, false);
  m_.activity.become(Doing::kNothing);
  return leave_untried(plan, dear->first, dear->second);
}

Next Trying::approved() {
  if (!m_.state.is_restarted()) return start_trial();
  if (m_.checkpoints.may_stop()) return start_approved();
  approved_ = true;
  m_.checkpoints.announce();
  return {};
}

Next Trying::saved() {
  if (m_.state.phase != Phase::kTrials || m_.view.held() || !m_.lost.empty()) return {};
  if (m_.state.doing == Doing::kAwaitingApproval && std::exchange(approved_, false)) return start_approved();
  if (m_.state.doing != Doing::kNothing || !waiting_) return {};
  const PricedPlan plan = *std::exchange(waiting_, std::nullopt);
  // Only now is it known what a copy of the checkpoint costs.
  if (const auto dear = too_dear(plan)) return leave_untried(plan, dear->first, dear->second);
  return begin_trial(plan);
}

void Trying::wait_no_longer() {
  waiting_.reset();
  approved_ = false;
}

Next Trying::begin_trial(const PricedPlan& plan) {
  const Trial& trial = m_.trials.begin(plan);
  m_.out.note("trial", "trial " + std::to_string(trial.id) + ": " + promise(trial.predicted, m_.state));
  if (m_.view.held()) {
    m_.state.trials.pop_back();
    m_.activity.become(Doing::kNothing);
    return {};
  }
  const std::int32_t id = trial.id;
  std::ranges::move(forget_old_trials(m_.state), std::back_inserter(m_.out.changed_trials));
  if (m_.state.job.mode != JobMode::kApprove) return start_trial();
  m_.activity.become(Doing::kAwaitingApproval);
  m_.out.note("trial", "trial " + std::to_string(id) + " awaits approval");
  return {};
}

Next Trying::go_on() {
  const bool is_free = m_.state.phase == Phase::kTrials && m_.state.doing == Doing::kNothing;
  // When every node is back, the phase goes on.
  if (!is_free || m_.view.held() || !m_.lost.empty()) return {};
  if (m_.hardware.is_due()) {
    wait_no_longer();
    m_.explain_drift();
  } else if (waiting_) {
    if (enough_steps_for_trial(m_.state)) return {};
    const PricedPlan plan = *std::exchange(waiting_, std::nullopt);
    return leave_untried(plan, "the job wrote no checkpoint in time, and is not stopped without one",
                         steps_needed_for_trial(m_.state));
  } else if (!m_.learning.watches()) {
    m_.hardware.take_first_look();
    m_.request_search();
  }
  return {};
}

Next Trying::start_trial() {
  const TrialSettings& settings = m_.state.job.trials;
  const Trial& trial = m_.state.trials.back();
  m_.out.decide("try plan " + trial.plan.hash + " in trial " + std::to_string(trial.id),
                promise(trial.predicted, m_.state));
  m_.learning.begin_trial();
  m_.overhead.blame_trial(false);
  m_.trials.start();
  m_.state.recommendation_json.clear();
  const std::int64_t of_pair = 2 * (settings.warmup_steps + settings.measure_steps);
  const bool is_long = m_.state.remaining_steps() >= kLong * kMostRoundsOfLong * settings.blocks * of_pair;
  const std::int32_t pairs = (is_long ? kMostRoundsOfLong : kMostRounds) * settings.blocks;
  const BlockSizes sizes{pairs, settings.warmup_steps, block_steps(m_.state)};
  m_.activity.become(Doing::kMeasuring, Measuring{Interleaving(sizes)});
  m_.out.changed = true;
  return next_block();
}

// After each pair of blocks.
Next Trying::judge_race() {
  const Race race = look(blocks().first(), blocks().second(), m_.state.noise, race_rules(m_.state, blocks()));
  keep_measured(blocks(), race.ratio, m_.state.noise, m_.state.trials.back());
  m_.out.changed = true;
  if (race.state == RaceState::kFaster) return conclude_trial(race, FailureReason::kNone);
  if (race.state == RaceState::kSlower)
    return conclude_trial(race, race.ratio.ratio > 1 ? FailureReason::kGainTooSmall : FailureReason::kSlower);
  if (race.state != RaceState::kOpen)
    return conclude_trial(race, race.ratio.ratio > 1 ? FailureReason::kGainNotSure : FailureReason::kSlower);
  if (!enough_overhead_for_pair(m_.state, blocks())) return conclude_trial(race, FailureReason::kOverhead);
  if (!enough_steps_for_trial(m_.state) || !enough_walltime_for(1, m_.state, m_.now))
    return conclude_trial(race, FailureReason::kGainNotSure);
  m_.out.note("trial", "trial " + std::to_string(m_.state.trials.back().id) + ": not sure yet, " + words(race.ratio) +
                           ": another pair of blocks");
  return next_block();
}

Next Trying::conclude_trial(const Race& race, const Reason& reason) {
  const Measuring& measured = *m_.activity.get<Measuring>();
  if (const std::string why = measured.clock.contradiction(); !why.empty())
    return unbelievable(FailureReason::kClock, why);
  TuningState& state = m_.state;
  Trial& trial = state.trials.back();
  keep_measured(measured.blocks, race.ratio, state.noise, trial);
  trial.reason = reason;
  m_.trials.set_state(TrialState::kMeasured);
  // A plan that was given up in its first block is known by that alone.
  const Blocks whole = measured.blocks.whole_second();
  m_.trials.observe(trial.plan, whole.empty() ? trial.measured : summarize(whole, state.noise));
  state.incumbent_measured = trial.incumbent;
  state.noise.learn_from_pairs(measured.blocks.whole_first(), whole);
  m_.activity.become(Doing::kNothing);
  const bool adopted = race.state == RaceState::kFaster;
  trial.state = adopted ? TrialState::kAdopted : TrialState::kRejected;
  if (adopted) adopt(trial);
  const std::string consequence = words(trial.ratio) + (adopted ? payback(trial) : ", " + reason.text());
  const std::string id = std::to_string(trial.id);
  m_.out.note("trial", "trial " + id + " " + std::string(to_string(trial.state)) + ": " + consequence);
  m_.out.decide((adopted ? "adopt the plan of trial " : "reject the plan of trial ") + id, consequence);
  // The ranks may run it already, and must know that it is no trial's any more.
  if (adopted && !state.is_restarted() && m_.running.is(trial.plan))
    m_.out.act(ProposePlan{state.committed_epoch, trial.plan.json, true});
  m_.trials.add_convergence(trial.id);
  return {Next::kRollBack};
}

void Trying::adopt(Trial& trial) {
  TuningState& state = m_.state;
  trial.break_even_steps = break_even_steps(trial.ratio, trial.incumbent.mean_ms, trial.switch_ms);
  state.replaced.push_back({state.incumbent, state.incumbent_predicted, trial.incumbent});
  if (state.replaced.size() > kReplaced) state.replaced.erase(state.replaced.begin());
  m_.hardware.change_plan(1 / trial.ratio.ratio, 1 / trial.ratio.high, 1 / trial.ratio.low);
  state.incumbent = trial.plan;
  state.incumbent_predicted = trial.predicted;
  state.incumbent_measured = trial.measured;
}

void Trying::withdraw_question(const std::string& why) {
  m_.fail_trial(FailureReason::kWithdrawn, "approval is asked for no longer: " + why, false);
  m_.state.conclusion = "trial " + std::to_string(m_.state.trials.back().id) + " was withdrawn: " + why;
  m_.state.tuned_wall_ns = m_.now.wall.count();
}

}  // namespace trimtab::coordinator
