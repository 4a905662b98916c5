// One trial: choosing the candidate, its states, its end.

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

std::string percent(const Ratio& ratio) {
  char text[96];
  std::snprintf(text, sizeof text, "%.3f times as fast (95 %%: %.3f to %.3f)", ratio.ratio, ratio.low, ratio.high);
  return text;
}

}  // namespace

bool Tuning::enough_steps_for_trial() const {
  const TrialSettings& settings = state_.job.trials;
  const std::int64_t block = settings.warmup_steps + settings.measure_steps;
  // The trial's own blocks, and then those of the final comparison.
  return remaining_steps() >= block * (2 * settings.blocks + 6);
}

void Tuning::take_search(const SearchReply& reply) {
  state_.calibration_json = reply.calibration_json;
  state_.incumbent_predicted = reply.incumbent.predicted;
  state_.explanation = reply.explanation;
  if (!reply.calibration_json.empty()) act(RememberCalibration{reply.calibration_json});
  transition();
}

// Of the best few plans that have not been tried, the one whose optimistic bound is best, when that beats the
// incumbent.
void Tuning::decide(const SearchReply& reply) {
  if (!reply.error.empty()) return finish_trials("the search failed: " + reply.error);
  take_search(reply);
  const Candidate* best = nullptr;
  std::int32_t considered = 0;
  for (const Candidate& one : reply.candidates) {
    const bool failed = std::find(state_.failed_hashes.begin(), state_.failed_hashes.end(), one.plan.hash) !=
                        state_.failed_hashes.end();
    if (failed || one.plan.hash == state_.incumbent.hash || one.plan.hash == state_.initial.hash) continue;
    if (state_.was_tried(one.plan.hash)) continue;
    if (++considered > state_.job.trials.candidates) break;
    if (best == nullptr || one.predicted.low_ms < best->predicted.low_ms) best = &one;
  }
  if (state_.job.mode == JobMode::kRecommend) {
    if (best != nullptr && best->predicted.mean_ms < state_.incumbent_measured.mean_ms) {
      state_.recommendation_json = best->plan.json;
      note("result", "a faster plan is recommended", best->plan.json);
    }
    return finish_trials("mode recommend: the recommendation stands, nothing is tried");
  }
  if (best == nullptr || best->predicted.low_ms >= state_.incumbent_measured.mean_ms) {
    return finish_trials("no plan that has not been tried may beat the incumbent");
  }
  if (std::cmp_greater_equal(state_.trials.size(), state_.job.trials.max_trials)) {
    return finish_trials("the most trials that the job allows have been made");
  }
  if (!enough_steps_for_trial()) return finish_trials("too few steps are left for another trial");
  begin_trial(*best);
}

void Tuning::begin_trial(const Candidate& candidate) {
  Trial trial;
  trial.id = static_cast<std::int32_t>(state_.trials.size()) + 1;
  trial.plan = candidate.plan;
  trial.predicted = candidate.predicted;
  state_.trials.push_back(trial);
  transition();
  note("trial", "trial " + std::to_string(trial.id) + ": predicted " + std::to_string(trial.predicted.mean_ms) +
                    " ms a step beside the incumbent's measured " + std::to_string(state_.incumbent_measured.mean_ms));
  if (state_.frozen) {
    state_.trials.pop_back();
    state_.doing = Doing::kNothing;
    return;
  }
  if (state_.job.mode == JobMode::kApprove) {
    state_.doing = Doing::kAwaitingApproval;
    note("trial", "trial " + std::to_string(trial.id) + " awaits approval");
    return;
  }
  start_trial();
}

void Tuning::start_trial() {
  const TrialSettings& settings = state_.job.trials;
  interleaving_.emplace(BlockSizes{settings.blocks, settings.warmup_steps, settings.measure_steps});
  transition();
  continue_interleaving();
}

void Tuning::set_trial(TrialState state) {
  Trial& trial = state_.trials.back();
  // Later blocks warm up and measure again: for people that is one measurement.
  if (trial.state == state || (trial.state == TrialState::kMeasuring && state < TrialState::kMeasuring)) return;
  trial.state = state;
  transition();
}

void Tuning::conclude_trial(bool early) {
  Trial& trial = state_.trials.back();
  trial.incumbent = summarize(interleaving_->first());
  trial.measured = summarize(interleaving_->second());
  trial.ratio = compare(interleaving_->first(), interleaving_->second());
  set_trial(TrialState::kMeasured);
  observe(trial.plan, trial.measured);
  state_.incumbent_measured = trial.incumbent;
  interleaving_.reset();
  const bool adopt = !early && worth_adopting(trial.ratio, trial.incumbent.mean_ms, trial.switch_ms, remaining_steps());
  trial.state = adopt ? TrialState::kAdopted : TrialState::kRejected;
  if (!adopt) trial.reason = trial.ratio.ratio > 1 ? "gain not sure" : "slower";
  if (adopt) {
    state_.incumbent = trial.plan;
    state_.incumbent_predicted = trial.predicted;
    state_.incumbent_measured = trial.measured;
  }
  note("trial", "trial " + std::to_string(trial.id) + " " + std::string(to_string(trial.state)) + ": " +
                    percent(trial.ratio) + (early ? ", ended early" : ""));
  add_convergence(trial.id);
  roll_back();
}

void Tuning::fail_trial(const std::string& reason, const std::string& message, bool blame_candidate) {
  Trial& trial = state_.trials.back();
  trial.state = TrialState::kFailed;
  trial.reason = reason;
  trial.message = message;
  interleaving_.reset();
  transition();
  note("trial", "trial " + std::to_string(trial.id) + " failed (" + reason + "): " + message);
  add_convergence(trial.id);
  if (!blame_candidate) return;
  state_.failed_hashes.push_back(trial.plan.hash);
  act(RememberFailure{trial.plan.hash, reason});
}

}  // namespace trimtab::coordinator
