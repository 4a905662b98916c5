#pragma once

// How torchtitan counts what is recomputed, and how it shares layers among stages. Pure.

#include <cstdint>
#include <optional>
#include <vector>

namespace trimtab {

// Its layer recomputation: each `every`-th layer of those that a device has, in their order; 0 = none, 1 = all.
// Before 0.3 (activation_checkpoint.selective_ac_option), `layers` being those of each stage and stage i on group
// i % groups.
[[nodiscard]] std::vector<bool> every_nth_layer(const std::vector<std::int32_t>& layers, std::int32_t groups,
                                                std::int32_t every);

// The layers of each stage where a configuration does not name modules (_generate_llm_fqn_per_model_part): the
// embedding counts as `first_less` layers, norm and head as `last_less`. Nothing where torchtitan refuses it.
// REQUIRES: positive numbers, but for the last two, which are not negative.
[[nodiscard]] std::optional<std::vector<std::int32_t>> weighted_layers(std::int32_t stages, std::int32_t layers,
                                                                       std::int32_t first_less, std::int32_t last_less);

}  // namespace trimtab
