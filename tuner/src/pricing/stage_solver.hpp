#pragma once

// Who solves a stage anew, operator by operator.

#include <vector>

#include "plan/candidate.hpp"

namespace trimtab::tuner {

class StageSolver {
 public:
  virtual ~StageSolver() = default;
  // Ways to run a stage of the candidate that fit, each operator split in its own way, the most promising first. None
  // where the space has neither mixed splits nor memory switches.
  virtual std::vector<CandidateStage> stage_proposals(const Candidate& candidate, std::size_t stage) = 0;
};

}  // namespace trimtab::tuner
