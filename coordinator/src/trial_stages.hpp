#pragma once

// Where a trial's steps went, stage by stage: as it was predicted before the trial, and as its ranks measured it. Pure.

#include <nlohmann/json_fwd.hpp>

#include "tuning/state.hpp"

namespace trimtab::coordinator {

// A list of {"predicted": terms, "measured": terms or null}, in ms of a step; empty where neither is known.
[[nodiscard]] nlohmann::json trial_stages(const Trial& trial);

}  // namespace trimtab::coordinator
