#pragma once

// The agent's SQLite file: opened for one agent alone, with a random instance name of its own. The classes that keep
// something in it (BatchSpool, RankLedger, CommandLedger) borrow it.

#include <sys/types.h>

#include "base/random.hpp"
#include "ranks/rank_identity.hpp"
#include "schema/database.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

struct AgentDatabase {
  Database database;
  std::string instance;  // 16 hex digits: the origin of its batches
};

// Tables of the spool (costs/cost_store.hpp). Rows of all tables carry checksums: one without its own is left out where
// it is read, and is set apart at the next start.
[[nodiscard]] const CheckedTable& batch_rows();  // id, active, bytes, payload
[[nodiscard]] const CheckedTable& aside_rows();  // instance, id, payload, reason

// What makes its tables.
[[nodiscard]] Migrations agent_migrations();

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

// The ranks this agent looks after, on disk: after its own death it knows them again. One owner thread.
struct LedgerRank {
  RankIdentity id;
  std::uint64_t launch = 0;
  std::uint64_t epoch = 0;  // of the plan it runs, as far as the agent knows
  pid_t pid = 0;
  std::uint64_t start_time = 0;
  bool said_bye = false;
  bool ended = false;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  // Of a job that its user launched: it is watched, and nothing else. 0 = this agent has launched it.
  std::uint32_t watched_world_size = 0;

  [[nodiscard]] bool is_watched() const { return watched_world_size > 0; }
};

class RankLedger {
 public:
  // `database` must outlive the ledger.
  explicit RankLedger(Database& database) : database_(&database) {}

  // Replaces what was known of that rank.
  [[nodiscard]] Status put(const LedgerRank& rank);
  [[nodiscard]] Result<std::vector<LedgerRank>> all() const;
  // Ranks that have ended, where there are more than a few hundred of them.
  [[nodiscard]] Status forget_old();
  [[nodiscard]] Status forget_ended();  // all of them
  [[nodiscard]] Status forget_ended(const std::string& job);
  [[nodiscard]] Status forget_ended_watched();

 private:
  Database* database_;
};

// Commands that were done, with their replies: one that is asked twice runs once, also across the agent's death. Keeps
// the latest few hundred. One owner thread.
class CommandLedger {
 public:
  static constexpr std::int64_t kKept = 256;

  // `database` must outlive the ledger.
  explicit CommandLedger(Database& database) : database_(&database) {}

  // Command ids are unique per coordinator database: another coordinator's start anew. Empty = unknown, changes
  // nothing. True where it is another one; where the former one has acknowledged batches, the instance is to be renewed
  // (agent_database.hpp).
  [[nodiscard]] Result<bool> serve(const std::string& coordinator);
  // Nothing for a command that was not done, or that differs from the one done under its id.
  [[nodiscard]] Result<std::optional<wire::CommandDone>> reply(const wire::Command& command) const;
  [[nodiscard]] Status done(const wire::Command& command, const wire::CommandDone& reply);

 private:
  Database* database_;
};

}  // namespace trimtab::agent
