#pragma once

// What is tried of a command whose user names no knobs and for which no plan can be searched. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/own_knobs.hpp"

namespace trimtab::cli {

// Samples of a microbatch, where the command says these and how many microbatches a step accumulates, by the names that
// transformers, accelerate, Lightning, DeepSpeed and many scripts have: a step keeps its samples. On a machine without
// GPUs the threads of a rank, too; `devices` of it, and `threads` that it has.
[[nodiscard]] std::vector<OwnKnob> usual_knobs(const std::vector<std::string>& options,
                                               std::optional<std::int32_t> devices, std::int32_t threads,
                                               std::int32_t ranks);

}  // namespace trimtab::cli
