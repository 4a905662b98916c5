#pragma once

// The latest launch of a restarted job itself, kept on disk in its scratch: what its ranks are started with again where
// a kill switch is thrown in the middle of a trial and no coordinator is there. Loop thread only.

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "commands/scratch.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

// Launch.variant of launches that try a plan.
inline constexpr std::string_view kTrialVariant = "trial";

// REQUIRES: the scratch is the job's own.
[[nodiscard]] Status keep_launch(const Scratch& scratch, const wire::Launch& launch);
// The same as launch number `number`: no earlier snapshot is replaced, and ranks that meet in a file meet in another
// one. An error where none is kept.
[[nodiscard]] Result<wire::Launch> kept_launch(const Scratch& scratch, std::uint64_t number);

}  // namespace trimtab::agent
