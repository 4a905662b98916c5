#pragma once

// What trials, the comparison and looks may cost, and whether steps and time suffice for them. Pure.

#include <cstdint>
#include <string>

#include "tuning/event.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/trial/interleaving.hpp"

namespace trimtab::coordinator {

struct TuningState;
struct View;

// Blocks of either plan in the comparison at the end.
inline constexpr std::int32_t kComparisonBlocks = 3;

// Steps of a block that count: what the job asks for. Of a restarted job more where its steps are short beside a
// launch, which costs the same whatever the block measures.
[[nodiscard]] std::int32_t block_steps(const TuningState& state);
// A change of plan, the incumbent's warm-up after it included.
[[nodiscard]] double change_cost_ms(const TuningState& state);
// What a job must be for a trial of the candidate, in words: so many steps, or another share. REQUIRES:
// overhead_spent() says why there is none.
[[nodiscard]] std::string overhead_needed(const TuningState& state, const PricedPlan& candidate);
// The same where steps do not suffice.
[[nodiscard]] std::string steps_needed_for_trial(const TuningState& state);
// Why no more may be spent on trials; empty = the candidate's, if it costs as much as those before and at least the
// pairs of blocks that an adoption takes (racing.hpp), is within the share, also of the job's time when the candidate
// is adopted.
[[nodiscard]] std::string overhead_spent(const TuningState& state, const PricedPlan& candidate);
// What tuning may yet cost, the way back to the incumbent set aside, with a step's time for its warm-up. `blocks`: of
// the trial or the comparison that goes on.
[[nodiscard]] double overhead_left_ms(const View& view, const Interleaving* blocks);
// Another pair of blocks at what this trial's have cost, with the way back after it.
[[nodiscard]] bool enough_overhead_for_pair(const TuningState& state, const Interleaving& blocks);
// Looks must leave something to trials.
[[nodiscard]] bool enough_overhead_for_look(const TuningState& state);
[[nodiscard]] bool enough_steps_for_trial(const TuningState& state);
// What so many pairs of blocks take of the walltime: a launch for each block, too, and for the job that goes on.
[[nodiscard]] bool enough_walltime_for(std::int32_t pairs, const TuningState& state, const Moment& now);
// Why the last comparison is not made; empty = it is. What it costs is the other plan's blocks and the changes of plan,
// and where blocks are thrown away all of them.
[[nodiscard]] std::string no_comparison(const View& view);

}  // namespace trimtab::coordinator
