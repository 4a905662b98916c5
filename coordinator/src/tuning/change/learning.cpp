#include "tuning/change/learning.hpp"

#include "tuning/search/own_planning.hpp"

namespace trimtab::coordinator {
namespace {

// What differs in own knobs alone is of their class, and else of the job's.
std::string_view class_of(const TuningState& state, const PlanText& candidate) {
  const Plan* const from = state.incumbent.said();
  const Plan* const to = candidate.said();
  if (from == nullptr || to == nullptr || semantic_hash(without_own(*from)) != semantic_hash(without_own(*to)))
    return state.job.change_class;
  return class_of_change(state.job.own_knobs, from->own, to->own);
}

}  // namespace

std::string Learning::judge(const JobStep& step) {
  const TuningState& state = view_.state;
  const std::string* const plan = state.hash_of(step.epoch);
  // Ranks that are being ended may tell of steps yet.
  const bool steers =
      (steers_ranks(state.phase) || state.phase == Phase::kLaunching) && !state.wants_no_ranks() && view_.lost.empty();
  const bool is_told = state.is_restarted() && plan != nullptr && steers;
  if (!is_told || (state.runs_trial() && !state.has_trial())) return "";
  if (state.runs_trial() && trial_launch_ != state.launch) {
    of_trial_ = watch_;
    of_trial_.stop();
    trial_launch_ = state.launch;
  }
  LearningWatch& watch = state.runs_trial() ? of_trial_ : watch_;
  const bool another = watch.runs(*plan, step.step);
  const bool watched = watch.watching();
  std::string why = watch.judge({step.loss, step.gradient_norm, step.not_finite});
  if (another || watched != watch.watching()) out_.changed = true;
  return why.empty() && state.runs_trial() ? compare(step, *plan) : why;
}

void Learning::begin_trial() {
  same_steps_ = SameSteps(class_of(view_.state, view_.state.trials.back().plan));
}

std::string Learning::compare(const JobStep& step, const std::string& plan) {
  const TuningState& state = view_.state;
  if (!state.has_trial() || step.loss == 0 || !step.not_finite.empty()) return "";
  if (plan == state.incumbent.hash) same_steps_.incumbent(state.launch, step.step, step.loss);
  if (plan == state.trials.back().plan.hash) same_steps_.candidate(step.step, step.loss);
  return same_steps_.why();
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
