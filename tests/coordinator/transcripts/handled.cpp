#include "handled.hpp"

#include <utility>

namespace trimtab::coordinator {

Handled take_handled(const Tuning& tuning, std::string call, const Event* event, Moment now, Outcome outcome) {
  Handled handled{std::move(outcome), std::move(call), event, now, {}};
  for (const Action& action : handled.actions) {
    const auto* search = std::get_if<SearchPlans>(&action);
    if (search != nullptr) handled.tasks.push_back(tuning.search_task(search->purpose));
  }
  return handled;
}

}  // namespace trimtab::coordinator
