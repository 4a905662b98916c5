#include "tuning/change/learning.hpp"

namespace trimtab::coordinator {

std::string Learning::judge(const JobStep& step) {
  const TuningState& state = view_.state;
  const std::string* const plan = state.hash_of(step.epoch);
  // Ranks that are being ended may tell of steps yet.
  const bool steers =
      (steers_ranks(state.phase) || state.phase == Phase::kLaunching) && !state.wants_no_ranks() && view_.lost.empty();
  const bool is_told = state.is_restarted() && plan != nullptr && steers;
  if (!is_told || (state.runs_trial() && !state.has_trial())) return "";
  LearningWatch& watch = state.runs_trial() ? of_trial_ : watch_;
  const bool another = watch.runs(*plan, step.step);
  const bool watched = watch.watching();
  std::string why = watch.judge({step.loss, step.gradient_norm, step.not_finite});
  if (another || watched != watch.watching()) out_.changed = true;
  return why;
}

void Learning::begin_trial() {
  of_trial_ = watch_;
  of_trial_.stop();
}

bool Learning::watches() const {
  return view_.state.is_restarted() && watch_.watching() && watch_.knows();
}

std::int64_t Learning::stop() {
  const std::int64_t since = watch_.since_step;
  watch_.stop();
  return since;
}

void Learning::run_again() {
  if (spoilt_step_ < 0) return;
  const std::int64_t step = view_.state.step;
  const bool saved = step > spoilt_step_;
  out_.note(saved ? "warning" : "plan",
            saved ? "the job had saved its checkpoint under the plan that it left: the updates of steps " +
                        std::to_string(spoilt_step_) + " to " + std::to_string(step - 1) + " stay"
                  : "the job goes on from its checkpoint from before the plan that it left");
  spoilt_step_ = -1;
}

}  // namespace trimtab::coordinator
