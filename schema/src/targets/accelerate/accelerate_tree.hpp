#pragma once

// What `accelerate launch` is told, in one tree: the members of its file with its options put in, the script's own
// options that say its batch under "script", and under "engine" the distributed_type that counts. Pure.

#include "documents/json_document.hpp"
#include "schema/plan_import.hpp"

namespace trimtab {

[[nodiscard]] Result<Json> accelerate_tree(const PlanFile& file);

}  // namespace trimtab
