#pragma once

// All that one call of a tuning machine gave, with what it asks to be searched.

#include <string>
#include <vector>

#include "tuning/tuning.hpp"

namespace trimtab::coordinator {

struct Handled : Outcome {
  std::string call;              // "begin", "resume" or "handle"
  const Event* event = nullptr;  // of "handle"
  Moment now;
  std::vector<SearchTask> tasks;  // one for each SearchPlans of the actions, in order
};

// What `call` has returned.
[[nodiscard]] Handled take_handled(const Tuning& tuning, std::string call, const Event* event, Moment now,
                                   Outcome outcome);

}  // namespace trimtab::coordinator
