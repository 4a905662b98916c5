#pragma once

// A plan as the search sees it: cuts, device counts and the microbatch. Devices go to stages in order; what is
// recomputed follows from the stage's memory (recompute_choice.hpp) unless it is spelled out. Plain values.

#include <cstdint>
#include <optional>
#include <vector>

#include "plan_space.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner {

struct CandidateStage {
  std::int32_t end = 0;      // one past the last operator; begins where the stage before ends
  std::int32_t devices = 1;  // data-parallel replicas
  std::int32_t further = 0;  // operators recomputed beyond what memory needs (inc-rc)
  bool operator==(const CandidateStage&) const = default;
};

struct Candidate {
  std::int32_t microbatch = 1;
  std::vector<CandidateStage> stages;

  [[nodiscard]] std::int32_t begin_of(std::size_t stage) const { return stage == 0 ? 0 : stages[stage - 1].end; }
  bool operator==(const Candidate&) const = default;
};

[[nodiscard]] std::uint64_t hash_of(const Candidate& candidate);

// The shape of a plan, without its recompute; nothing where the space cannot express it (devices out of order, a
// segment that is split in another way than by all its devices).
[[nodiscard]] std::optional<Candidate> candidate_of(const Plan& plan, const PlanSpace& space);

// `recompute` by stage.
[[nodiscard]] Plan plan_of(const Candidate& candidate, const Model& model,
                           const std::vector<std::vector<Range>>& recompute);

}  // namespace trimtab::tuner
