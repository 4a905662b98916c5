#pragma once

// The plan that Megatron-LM's arguments say: what export_plan(…, "megatron") writes, read back, and what else its users
// write for the same. Pure; any thread.
//
// Meanings and defaults are those of megatron/training/arguments.py and of validate_args there (August 2026). Options
// that say nothing of a plan are passed over.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab {

// Options that a plan decides, without their dashes. A command that is given plans must not have them itself.
[[nodiscard]] std::span<const std::string_view> megatron_plan_options();

// The plan of `world_size` ranks. `model` is that of the same arguments (megatron_model.hpp). Fails, naming the option,
// on what is malformed, what Megatron-LM itself would refuse, and what a plan cannot say (a part of a layer that is
// recomputed, a batch that grows). REQUIRES: world_size > 0.
[[nodiscard]] Result<Plan> plan_from_megatron(const std::vector<std::string>& arguments, const Model& model,
                                              std::int32_t world_size);

}  // namespace trimtab
