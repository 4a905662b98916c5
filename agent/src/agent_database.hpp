#pragma once

// The agent's SQLite file: opened for one agent alone, with a random instance name of its own. The classes that keep
// something in it (BatchSpool, RankLedger, CommandLedger) borrow it.

#include <string>

#include "base/random.hpp"
#include "base/result.hpp"
#include "schema/database.hpp"

namespace trimtab::agent {

struct AgentDatabase {
  Database database;
  std::string instance;  // 16 hex digits: the origin of its batches
};

// `random` names a new database. Refused: a read-only place, a second agent on the same state.
[[nodiscard]] Result<AgentDatabase> open_agent_database(const std::string& path, Random& random);

// Where another coordinator has been met since (CommandLedger::serve) and no batch is left: a new instance, whose
// batches are numbered from 1, so that that coordinator misses none of them. True when `opened` has it.
[[nodiscard]] Result<bool> renew_instance(AgentDatabase& opened, Random& random);

// A unique number for this start of this program.
[[nodiscard]] std::uint64_t random_seed();

}  // namespace trimtab::agent
