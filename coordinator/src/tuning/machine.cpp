#include "tuning/machine.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

void forget_gain_of(std::int32_t trial, TuningState& state) {
  state.compared = state.retuned_compared = false;
  const auto ended =
      std::ranges::find_if(state.hardware.drifts, [trial](const Drift& one) { return one.trials_before >= trial; });
  if (ended == state.hardware.drifts.end()) return;
  ended->gained_before = {};
  ended->gained_in.clear();
}

}  // namespace

Machine::Machine(TuningState kept)
    : state(std::move(kept)), assembly(state.world_size()), since_change(state.job.trials.warmup_steps) {}

void Machine::forget_steps(bool of_processes) {
  if (of_processes) {
    assembly = StepAssembly(state.world_size());
    unexpected_steps = 0;
  }
  assembly.clear();
  since_change = Settling(state.job.trials.warmup_steps);
}

void Machine::begin_block(bool changed) {
  auto* const measuring = activity.get<Measuring>();
  TRIMTAB_ASSERT(measuring != nullptr, "a block is of plans that are measured");
  activity.go_on_as(Doing::kMeasuring);
  measuring->moved_at = now.monotonic;
  measuring->left_out = 0;
  overhead.begin_block();
  measuring->clock.begin_block();
  measuring->blocks.begin_block(changed);
}

void Machine::fail_trial(const Reason& reason, const std::string& message, bool blame_candidate) {
  (void)activity.take<Measuring>();
  trials.fail(reason, message, blame_candidate);
}

bool Machine::give_back_incumbent(const Reason& reason, const std::string& message) {
  // Plans from before nodes were lost are for more devices than there are.
  const auto failed = std::find_if(state.trials.rbegin(), state.trials.rend(), [this](const Trial& one) {
    return one.state == TrialState::kAdopted && one.plan.hash == state.incumbent.hash &&
           one.id > state.trials_before_resize;
  });
  if (failed == state.trials.rend()) return false;
  running.forget();
  if (state.has_trial()) fail_trial(FailureReason::kIncumbentFailed, message, false);
  trials.fail_adopted(*failed, reason, message);
  forget_gain_of(failed->id, state);
  Replaced before{state.initial, state.initial_predicted, state.initial_measured};
  if (!state.replaced.empty()) {
    before = std::move(state.replaced.back());
    state.replaced.pop_back();
  }
  hardware.forget_steps();
  state.incumbent = std::move(before.plan);
  state.incumbent_predicted = before.predicted;
  state.incumbent_measured = before.measured;
  out.decide("leave the plan of trial " + std::to_string(failed->id) + " for the one before it",
             reason.text() + ": " + message);
  out.note("warning", "the adopted plan of trial " + std::to_string(failed->id) + " failed (" + reason.text() +
                          ") and is left for the one before it: " + message);
  out.changed = true;
  return true;
}

bool Machine::return_to_initial() {
  if (state.incumbent.hash == state.initial.hash) return false;
  state.replaced.clear();
  state.compared = state.retuned_compared = false;
  state.incumbent = state.initial;
  state.incumbent_predicted = state.initial_predicted;
  state.incumbent_measured = state.initial_measured;
  hardware.forget_steps();
  out.changed = true;
  return true;
}

void Machine::begin_anew(const PlanText& plan, const Predicted& predicted) {
  state.initial = state.incumbent = plan;
  state.initial_predicted = state.incumbent_predicted = predicted;
  elastic.forget_spare();
  state.replaced.clear();
  state.forget_measurements();
  hardware.begin_anew();
}

void Machine::explain_drift() {
  if (!view.may_retune()) return;
  activity.become(Doing::kProbing, Probing{now.monotonic});
  hardware.probe();
}

void Machine::request_search() {
  trials.update_observations();
  if (hardware.measures_first()) {
    activity.become(Doing::kProbing, Probing{now.monotonic, MeasuringAgain{}});
    out.changed = true;
    return out.act(ListDoubtful{});
  }
  activity.become(Doing::kSearching);
  out.changed = true;
  searches.ask(SearchFor::kJob, out);
}

}  // namespace trimtab::coordinator
