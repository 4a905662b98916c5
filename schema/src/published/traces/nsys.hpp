#pragma once

// Nsight Systems' traces, exported to SQLite. A process of the trace that used a device is a rank.

#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

[[nodiscard]] Result<std::vector<TracedRank>> read_nsys(const std::string& path);

}  // namespace trimtab::published
