#pragma once

// The union of two cost databases. See schema/README.md, "Batches and merging".

#include <cstdint>

#include "base/result.hpp"
#include "schema/database.hpp"

namespace trimtab {

// Adds all of `theirs` to `ours`, inside the caller's transactions on both. Returns the number of new batches.
[[nodiscard]] Result<std::uint64_t> merge_costs(Database& ours, const Database& theirs);

}  // namespace trimtab
