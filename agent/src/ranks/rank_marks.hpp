#pragma once

// A file in its job's directory for each rank that this agent has launched and that runs: where the ledger was removed,
// or set back to a copy, the rank is found all the same, and nothing is launched beside it. Of a directory that was
// copied the files tell nothing: those ranks are another agent's.

#include <string>
#include <vector>

#include "agent_database.hpp"

namespace trimtab::agent {

// Before the rank runs anything.
[[nodiscard]] Status mark_rank(const std::string& state, const LedgerRank& rank);
void unmark_rank(const std::string& state, const RankIdentity& id);
// All there are. Whether their processes still run is for the caller to ask.
[[nodiscard]] std::vector<LedgerRank> marked_ranks(const std::string& state);

}  // namespace trimtab::agent
