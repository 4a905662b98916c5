#include "handled.hpp"

#include <utility>

namespace trimtab::coordinator {

Handled take_handled(Tuning& tuning, std::string call, const Event* event, Moment now, std::vector<Action> actions) {
  Handled handled;
  handled.call = std::move(call);
  handled.event = event;
  handled.now = now;
  handled.actions = std::move(actions);
  for (const Action& action : handled.actions) {
    const auto* search = std::get_if<SearchPlans>(&action);
    if (search != nullptr) handled.tasks.push_back(tuning.search_task(search->purpose));
  }
  handled.notes = tuning.take_notes();
  handled.decisions = tuning.take_decisions();
  handled.steps = tuning.take_steps();
  handled.changed_trials = tuning.take_changed_trials();
  handled.transition = tuning.take_transition();
  return handled;
}

}  // namespace trimtab::coordinator
