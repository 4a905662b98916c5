#pragma once

// What an agent's hello says of its ranks and of its batches of costs, from what is on its disk.

#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ranks/rank_ledger.hpp"
#include "schema/database.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

// Those that run, and of each job the latest launch, over or not.
void say_ranks(const std::vector<LedgerRank>& ranks, wire::Hello& hello);
// After say_ranks(): these jobs have files here; those that it has not named are launches of number 0, up to
// kMostLaunches (schema/frame_bounds.hpp).
void say_kept(const std::set<std::string>& jobs, wire::Hello& hello);

// What a coordinator needs that was set back to an older copy of its state, or whose agent was.
[[nodiscard]] Status say_numbers(const Database& database, wire::Hello& hello);

}  // namespace trimtab::agent
