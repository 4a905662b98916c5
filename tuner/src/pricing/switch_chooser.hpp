#pragma once

// Who chooses a stage's memory switches.

#include <optional>

#include "plan/candidate.hpp"

namespace trimtab::tuner {

class SwitchChooser {
 public:
  virtual ~SwitchChooser() = default;
  // A stage of the candidate with the memory switches that are best for its memory, its recompute among them (those of
  // least memory where none fit). Nothing where the space has no switches, its segments cut a layer, or a cost is
  // missing.
  virtual std::optional<CandidateStage> with_switches(const Candidate& candidate, std::size_t stage) = 0;
};

}  // namespace trimtab::tuner
