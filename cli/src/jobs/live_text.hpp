#pragma once

// What a job's ranks do right now, as a page for people. Pure.

#include <string>
#include <vector>

#include "schema/api/live.hpp"

namespace trimtab::cli {

// A table of ranks, one of their streams, the busiest of each rank first, and the kernels and collectives that take
// longest.
[[nodiscard]] std::string describe(const std::vector<api::LiveRank>& ranks);

}  // namespace trimtab::cli
