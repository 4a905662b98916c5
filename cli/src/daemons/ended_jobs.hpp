#pragma once

// The jobs that `trimtab down` ends with the daemons: they are over, and are not begun again by whoever brings daemons
// up next. Blocking; polls with deadlines.

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "daemons/up_state.hpp"

namespace trimtab::cli {

// Asks the coordinator that is up to stop every job that is not over, so that ranks end after a whole step, and waits
// for a time. What has not ended by then, or cannot be asked, is noted in the state directory for end_noted_jobs(). A
// halted job has no ranks: it stays as it is. Says which jobs: "gpt, at step 102 of 1500".
[[nodiscard]] std::vector<std::string> end_jobs(const std::string& state_directory, const UpState& state,
                                                const Clock& clock);

// Of a coordinator that has just been started and has no agents yet: what was noted is over before anything is
// launched.
[[nodiscard]] Status end_noted_jobs(const std::string& state_directory, const UpState& state);

}  // namespace trimtab::cli
