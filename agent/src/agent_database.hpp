#pragma once

// The agent's SQLite file: opened for one agent alone, with a random instance name of its own. The classes that keep
// something in it (BatchSpool, RankLedger, CommandLedger) borrow it.

#include <cstdint>
#include <functional>
#include <limits>
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

// What the agent says of its instance's numbers. The coordinator compares (wire/agent.proto, Hello).
struct BatchNumbers {
  std::string coordinator;      // that acknowledged them; empty = none, or several
  std::uint64_t held_from = 1;  // all below are acknowledged
  std::uint64_t last = 0;       // given out
};
[[nodiscard]] Result<BatchNumbers> batch_numbers(const Database& database);

// The coordinator has found that the instance's numbers are used by others, too: this database is an older copy, or one
// of two. Batches up to `stored` may be stored there already and go out under the old instance; none above must.
[[nodiscard]] Status ask_renewal(Database& database, std::uint64_t stored);
// Up to which number batches may go out under this instance.
inline constexpr std::uint64_t kEveryBatch = std::numeric_limits<std::int64_t>::max();
[[nodiscard]] Result<std::uint64_t> last_to_send(const Database& database);

// Where the instance is to be renewed, because another coordinator has been met since (CommandLedger::serve) or
// ask_renewal() was called, and no batch is left that goes out under the old one: a new instance, whose batches are
// numbered from 1, so that the coordinator misses none of them. True when `opened` has it. `before` is told of the new
// name and of how many batches wait for it, and can prevent it.
using BeforeRenewal = std::function<Status(const std::string& instance, std::uint64_t batches)>;
[[nodiscard]] Result<bool> renew_instance(AgentDatabase& opened, Random& random, const BeforeRenewal& before);

// A unique number for this start of this program.
[[nodiscard]] std::uint64_t random_seed();

}  // namespace trimtab::agent
