#pragma once

// All that one call of a tuning machine gave, taken from it at once.

#include <string>
#include <vector>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

struct Handled {
  std::string call;              // "begin", "resume" or "handle"
  const Event* event = nullptr;  // of "handle"
  Moment now;
  std::vector<Action> actions;
  std::vector<SearchTask> tasks;  // one for each SearchPlans of the actions, in order
  std::vector<Note> notes;
  std::vector<Decision> decisions;
  std::vector<MeasuredStep> steps;
  std::vector<Trial> changed_trials;
  bool transition = false;
};

// What `call` has left in the machine, beside the actions that it returned.
[[nodiscard]] Handled take_handled(Tuning& tuning, std::string call, const Event* event, Moment now,
                                   std::vector<Action> actions);

}  // namespace trimtab::coordinator
