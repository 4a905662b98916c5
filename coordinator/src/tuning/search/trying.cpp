// What becomes of a search for the next trial.

#include <algorithm>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/search/choice.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
void Tuning::take_search(const SearchReply& reply) {
  state_.calibration_json = reply.calibration_json;
  state_.incumbent_predicted = reply.incumbent.predicted;
  state_.explanation = reply.explanation;
  if (!reply.calibration_json.empty()) out_.act(RememberCalibration{reply.calibration_json});
  out_.changed = true;
}

void Tuning::pass_over(const PassedOver& copy) {
  const auto again = [&](const PassedOver& one) { return one.plan.hash == copy.plan.hash; };
  if (std::ranges::any_of(state_.passed_over, again)) return;
  out_.note("plan", "a plan predicted at " + format_ms(copy.predicted_ms) + " is not tried: it " + copy.why,
            copy.plan.json);
  state_.passed_over.push_back(copy);
}

void Tuning::recommend(const Candidate* best) {
  if (best != nullptr && best->predicted.mean_ms < worthwhile_ms(state_)) {
    state_.recommendation_json = best->plan.json;
    out_.note("result", "a faster plan is recommended: predicted " + format_ms(best->predicted.mean_ms) + " a step",
              best->plan.json);
  }
  finish_trials("mode recommend: the recommendation stands, nothing is tried");
}

void Tuning::decide(const SearchReply& reply) {
  if (!reply.error.empty()) return finish_trials("the search failed: " + reply.error, false);
  take_search(reply);
  hardware_.note_stale(reply);
  const Choice choice = choose(state_, reply);
  for (const PassedOver& one : choice.near_copies) pass_over(one);
  const Candidate* const best = choice.best;
  if (!reply.infeasible.empty()) out_.note("warning", "the search found no plan that fits: " + reply.infeasible);
  if (state_.job.mode == JobMode::kRecommend) return recommend(best);
  if (best == nullptr || optimistic_ms(state_, *best) >= worthwhile_ms(state_)) {
    return finish_trials("no plan that has not been tried may beat the incumbent by " +
                         format_number(state_.job.trials.minimum_gain * 100) + " %");
  }
  if (state_.trials_made() >= state_.job.trials.max_trials) {
    return finish_trials("the most trials that the job allows have been made");
  }
  if (const std::string spent = overhead_spent(state_, *best); !spent.empty()) return finish_trials(spent);
  if (!enough_steps_for_trial(state_)) return finish_trials("too few steps are left for another trial");
  const bool in_time = enough_walltime_for(state_.job.trials.blocks, state_, now_);
  if (!in_time) return finish_trials("too little walltime is left for another trial");
  begin_trial(*best);
}

}  // namespace trimtab::coordinator
