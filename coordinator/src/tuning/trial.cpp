// One trial: its beginning, its states, its end.

#include <algorithm>

#include "base/numbers.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// A trial that is not sure of its gain goes on, up to so many times the blocks that the job asks for. Each look at the
// interval is one more chance to be fooled, so there are few.
constexpr std::int32_t kMostRounds = 3;

std::string words(const Ratio& ratio) {
  return format_fixed(ratio.ratio, 2) + "x as fast (95 %: " + format_fixed(ratio.low, 2) + " to " +
         format_fixed(ratio.high, 2) + ")";
}

}  // namespace

void Tuning::begin_trial(const Candidate& candidate) {
  Trial trial;
  trial.id = static_cast<std::int32_t>(state_.trials.size()) + 1;
  trial.plan = candidate.plan;
  trial.predicted = candidate.predicted;
  state_.trials.push_back(trial);
  transition();
  note("trial", "trial " + std::to_string(trial.id) + ": predicted " + format_ms(trial.predicted.mean_ms) +
                    " a step beside the incumbent's measured " + format_ms(state_.incumbent_measured.mean_ms));
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

// True when the gain is not sure and as many blocks again may make it so.
bool Tuning::extend_trial() {
  const TrialSettings& settings = state_.job.trials;
  const Ratio ratio = compare(interleaving_->first(), interleaving_->second());
  const double incumbent_ms = summarize(interleaving_->first()).mean_ms;
  const bool not_sure =
      ratio.ratio > 1 && !worth_adopting(ratio, incumbent_ms, state_.trials.back().switch_ms, remaining_steps());
  if (!not_sure || interleaving_->blocks() >= kMostRounds * settings.blocks || !enough_steps_for_trial()) return false;
  interleaving_->extend(settings.blocks);
  note("trial", "trial " + std::to_string(state_.trials.back().id) + ": gain not sure, " + words(ratio) + ": " +
                    std::to_string(settings.blocks) + " more blocks of each plan");
  return true;
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
                    words(trial.ratio) + (early ? ", ended early" : ""));
  add_convergence(trial.id);
  roll_back();
}

void Tuning::fail_trial(const std::string& reason, const std::string& message, bool blame_candidate) {
  Trial& trial = state_.trials.back();
  trial.state = TrialState::kFailed;
  trial.reason = reason;
  trial.message = message;
  if (const auto peaks = peak_bytes_.find(trial.plan.hash); peaks != peak_bytes_.end() && reason == "out_of_memory") {
    trial.peak_bytes = *std::max_element(peaks->second.begin(), peaks->second.end());
  }
  interleaving_.reset();
  transition();
  note("trial", "trial " + std::to_string(trial.id) + " failed (" + reason + "): " + message);
  add_convergence(trial.id);
  if (!blame_candidate) return;
  state_.failed_hashes.push_back(trial.plan.hash);
  act(RememberFailure{trial.plan.hash, reason});
}

}  // namespace trimtab::coordinator
