#pragma once

// What strategies build alike: candidates of equal splits, lists of the best, steps of their traces. Pure.

#include <string>
#include <vector>

#include "search/strategy.hpp"

namespace trimtab::tuner {

[[nodiscard]] CandidateStage stage_of(std::int32_t end, std::int32_t devices, const Split& split);
// Stages that end there, each on so many devices.
[[nodiscard]] Candidate uniform_candidate(std::int32_t microbatch, const std::vector<std::int32_t>& ends,
                                          std::int32_t devices, const Split& split);
// Where stages end that even_cuts() parts. REQUIRES: as even_cuts().
[[nodiscard]] std::vector<std::int32_t> even_ends(const SearchRun& run, std::int32_t stages);
// Whether each of so many stages may have an equal share of the devices.
[[nodiscard]] bool allows_even_devices(const PlanSpace& space, std::int32_t stages);
// What the plan recomputes, by stage.
[[nodiscard]] std::vector<std::vector<Range>> recomputed_of(const Plan& plan);

// Adds a priced candidate to the best ones, the best first, of which there are `most` at most.
void keep_best(std::vector<Scored>& all, Scored candidate, std::size_t most);

// Of one split along first choices, recompute by the cost model's rule.
[[nodiscard]] inline bool is_plain(const CandidateStage& stage) {
  return stage.segments.empty() && stage.alternate.empty() && !stage.recompute;
}
// What the stage takes by itself over a step.
[[nodiscard]] double own_ms(const StagePrice& price, double microbatches);

// A step of the trace: what was tried where, and what that changed.
[[nodiscard]] SearchStep step_of(const SearchRun& run, std::size_t stages, std::string bottleneck,
                                 std::string primitive, const Score& before, const Score& after);
// Of plans that fit; `before_ms` may be infinite where there was none.
[[nodiscard]] SearchStep timed_step(const SearchRun& run, std::size_t stages, std::string bottleneck,
                                    std::string primitive, double before_ms, double after_ms);

}  // namespace trimtab::tuner
