#include "agent_database.hpp"

#include <sys/random.h>
#include <algorithm>
#include <iterator>

#include "agent_migrations.hpp"

namespace trimtab::agent {

namespace {

constexpr std::uint32_t kApplicationId = 0x54544147;  // "TTAG"
// Checking as much takes less than a second.
constexpr Bytes kCheckedUpTo = Bytes{128} << 20;

std::string hexadecimal(std::uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text.push_back("0123456789abcdef"[(value >> shift) & 15U]);
  return text;
}

const CheckedTable& identity_rows() {
  static const CheckedTable table{"identity", {"instance", "coordinator", "renew", "renew_above"}};
  return table;
}

const CheckedTable& identity_again_rows() {
  static const CheckedTable table{"identity_again", identity_rows().columns};
  return table;
}

const CheckedTable& rank_rows() {
  static const CheckedTable table{"ranks",
                                  {"job", "variant", "rank", "launch", "epoch", "pid", "start_time", "said_bye",
                                   "ended", "exit_code", "signal", "watched_world_size"}};
  return table;
}

const CheckedTable& rank_again_rows() {
  static const CheckedTable table{"ranks_again", rank_rows().columns};
  return table;
}

const CheckedTable& command_rows() {
  static const CheckedTable table{"commands", {"id", "digest", "ok", "error", "output", "exit_code"}};
  return table;
}

struct Identity {
  std::string instance;
  std::string coordinator = {};
  bool renew = false;
  std::int64_t renew_above = static_cast<std::int64_t>(kEveryBatch);
};

// Of the first that is whole; nothing of a new database.
Result<std::optional<Identity>> find_identity(const Database& database) {
  for (const CheckedTable* table : {&identity_rows(), &identity_again_rows()}) {
    TRIMTAB_TRY(const auto found, database.query_checked(*table));
    if (found.rows.size() != 1) continue;
    const Row& row = found.rows[0];
    return std::optional(Identity{as_text(row[0]), as_text(row[1]), as_integer(row[2]) != 0, as_integer(row[3])});
  }
  return std::optional<Identity>();
}

Result<Identity> read_identity(const Database& database) {
  TRIMTAB_TRY(const auto found, find_identity(database));
  if (found) return *found;
  return bad_input("agent database " + database.name() + ": its identity cannot be read. Start the agent again");
}

// REQUIRES: inside a transaction.
Status write_identity(Database& database, const Identity& identity) {
  TRIMTAB_TRY_STATUS(database.execute("DELETE FROM identity"));
  return database.execute(
      insertion(identity_rows()),
      with_checksum({identity.instance, identity.coordinator, std::int64_t{identity.renew}, identity.renew_above}));
}

}  // namespace

Migrations agent_migrations() {
  const std::string identity = columns_of(identity_rows()) + ", checksum";
  const std::string ranks = columns_of(rank_rows()) + ", checksum";
  return {kApplicationId,
          "agent database",
          {std::begin(kAgentMigrations), std::end(kAgentMigrations)},
          {},
          {identity_rows(), identity_again_rows(), batch_rows(), rank_rows(), rank_again_rows(), command_rows(),
           aside_rows()},
          // Of each pair one is whole.
          {"INSERT INTO identity (" + identity + ") SELECT " + identity +
               " FROM identity_again WHERE NOT EXISTS (SELECT 1 FROM identity)",
           "UPDATE identity SET instance = instance",
           "INSERT OR IGNORE INTO ranks (" + ranks + ") SELECT " + ranks + " FROM ranks_again",
           "INSERT OR REPLACE INTO ranks_again (" + ranks + ") SELECT " + ranks + " FROM ranks"},
          kCheckedUpTo};
}

const CheckedTable& batch_rows() {
  static const CheckedTable table{"batches", {"id", "active", "bytes", "payload"}};
  return table;
}

const CheckedTable& aside_rows() {
  static const CheckedTable table{"unreadable_batches", {"instance", "id", "payload", "reason"}};
  return table;
}

Result<AgentDatabase> open_agent_database(const std::string& path, Random& random) {
  TRIMTAB_TRY(auto database, Database::open(path, DatabaseMode::kCreate, agent_migrations(), /*exclusive=*/true));
  TRIMTAB_TRY(auto identity, find_identity(database));
  if (!identity) {
    identity = Identity{hexadecimal(random.next())};
    TRIMTAB_TRY_STATUS(database.transaction([&] { return write_identity(database, *identity); }));
  }
  return AgentDatabase{std::move(database), identity->instance};
}

Result<BatchNumbers> batch_numbers(const Database& database) {
  TRIMTAB_TRY(const Identity identity, read_identity(database));
  TRIMTAB_TRY(const auto rows, database.query("SELECT (SELECT MIN(id) FROM batches), (SELECT seq FROM "
                                              "sqlite_sequence WHERE name = 'batches')"));
  const Row& row = rows.at(0);
  BatchNumbers numbers;
  if (!identity.renew) numbers.coordinator = identity.coordinator;
  if (row[1].index() != 0) numbers.last = static_cast<std::uint64_t>(as_integer(row[1]));
  numbers.held_from = row[0].index() != 0 ? static_cast<std::uint64_t>(as_integer(row[0])) : numbers.last + 1;
  return numbers;
}

Status ask_renewal(Database& database, std::uint64_t stored) {
  return database.transaction([&]() -> Status {
    TRIMTAB_TRY(Identity identity, read_identity(database));
    identity.renew = true;
    identity.renew_above = std::min(identity.renew_above, static_cast<std::int64_t>(std::min(stored, kEveryBatch)));
    return write_identity(database, identity);
  });
}

Result<std::uint64_t> last_to_send(const Database& database) {
  TRIMTAB_TRY(const Identity identity, read_identity(database));
  return identity.renew ? static_cast<std::uint64_t>(identity.renew_above) : kEveryBatch;
}

Result<bool> renew_instance(AgentDatabase& opened, Random& random, const BeforeRenewal& before) {
  Database& database = opened.database;
  TRIMTAB_TRY(Identity identity, read_identity(database));
  if (!identity.renew) return false;
  TRIMTAB_TRY(const auto due, database.query("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM batches WHERE id <= ?)",
                                             {identity.renew_above}));
  if (due.empty()) return false;
  identity = {hexadecimal(random.next()), identity.coordinator};
  TRIMTAB_TRY(const auto waiting, database.query("SELECT id FROM batches ORDER BY id"));
  TRIMTAB_TRY_STATUS(before(identity.instance, waiting.size()));
  const auto renew = [&]() -> Status {
    TRIMTAB_TRY_STATUS(write_identity(database, identity));
    // Each moves down, if at all, to where none is any more. One that is damaged stays so.
    Rows moves;
    for (const Row& row : waiting) moves.push_back({static_cast<std::int64_t>(moves.size()) + 1, row[0]});
    TRIMTAB_TRY_STATUS(database.execute_each(
        "UPDATE batches SET id = ?1, checksum = CASE WHEN checksum = row_checksum(id, active, bytes, payload) THEN "
        "row_checksum(?1, active, bytes, payload) ELSE 0 END WHERE id = ?2",
        moves));
    return database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'batches'",
                            {static_cast<std::int64_t>(waiting.size())});
  };
  TRIMTAB_TRY_STATUS(database.transaction(renew));
  opened.instance = identity.instance;
  return true;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  while (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
  }
  return seed;
}

// Not by ON CONFLICT, which tells no trigger of an insertion.
Status RankLedger::put(const LedgerRank& rank) {
  static const std::string insert = "INSERT OR REPLACE" + insertion(rank_rows()).substr(sizeof "INSERT" - 1);
  return database_->execute(
      insert,
      with_checksum({rank.id.job, rank.id.variant, std::int64_t{rank.id.rank}, static_cast<std::int64_t>(rank.launch),
                     static_cast<std::int64_t>(rank.epoch), std::int64_t{rank.pid},
                     static_cast<std::int64_t>(rank.start_time), std::int64_t{rank.said_bye}, std::int64_t{rank.ended},
                     std::int64_t{rank.exit_code}, std::int64_t{rank.signal}, std::int64_t{rank.watched_world_size}}));
}

Status RankLedger::forget_old() {
  return database_->execute("DELETE FROM ranks WHERE ended = 1 AND (SELECT COUNT(*) FROM ranks WHERE ended = 1) > 256");
}

Status RankLedger::forget_ended() {
  return database_->execute("DELETE FROM ranks WHERE ended = 1");
}

Status RankLedger::forget_ended(const std::string& job) {
  return database_->execute("DELETE FROM ranks WHERE ended = 1 AND job = ?", {job});
}

Status RankLedger::forget_ended_watched() {
  return database_->execute("DELETE FROM ranks WHERE ended = 1 AND watched_world_size > 0");
}

Result<std::vector<LedgerRank>> RankLedger::all() const {
  TRIMTAB_TRY(auto found, database_->query_checked(rank_rows(), "ORDER BY job, variant, rank"));
  if (!found.damaged.empty()) {
    TRIMTAB_TRY(found, database_->query_checked(rank_again_rows(), "ORDER BY job, variant, rank"));
  }
  std::vector<LedgerRank> ranks;
  for (const auto& row : found.rows) {
    LedgerRank rank;
    rank.id = {as_text(row[0]), as_text(row[1]), static_cast<std::uint32_t>(as_integer(row[2]))};
    rank.launch = static_cast<std::uint64_t>(as_integer(row[3]));
    rank.epoch = static_cast<std::uint64_t>(as_integer(row[4]));
    rank.pid = static_cast<pid_t>(as_integer(row[5]));
    rank.start_time = static_cast<std::uint64_t>(as_integer(row[6]));
    rank.said_bye = as_integer(row[7]) != 0;
    rank.ended = as_integer(row[8]) != 0;
    rank.exit_code = static_cast<std::int32_t>(as_integer(row[9]));
    rank.signal = static_cast<std::int32_t>(as_integer(row[10]));
    rank.watched_world_size = static_cast<std::uint32_t>(as_integer(row[11]));
    ranks.push_back(rank);
  }
  return ranks;
}

namespace {

// FNV-1a; it tells apart what a coordinator sends, not what an attacker makes.
std::string digest(const wire::Command& command) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const std::string bytes = command.SerializeAsString();
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return std::to_string(hash) + "/" + std::to_string(bytes.size());
}

}  // namespace

Result<bool> CommandLedger::serve(const std::string& coordinator) {
  bool is_another = false;
  const Status kept = database_->transaction([&]() -> Status {
    TRIMTAB_TRY(Identity identity, read_identity(*database_));
    if (coordinator.empty() || identity.coordinator == coordinator) return {};
    is_another = true;
    TRIMTAB_TRY_STATUS(database_->execute("DELETE FROM commands"));
    TRIMTAB_TRY(const auto rows,
                database_->query("SELECT (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name "
                                 "= 'batches') > (SELECT COUNT(*) FROM batches)"));
    identity.coordinator = coordinator;
    identity.renew = identity.renew || as_integer(rows.at(0)[0]) != 0;
    return write_identity(*database_, identity);
  });
  if (!kept.ok()) return kept.error();
  return is_another;
}

Result<std::optional<wire::CommandDone>> CommandLedger::reply(const wire::Command& command) const {
  TRIMTAB_TRY(const auto found, database_->query_checked(command_rows(), "WHERE id = ? AND digest = ?",
                                                         {static_cast<std::int64_t>(command.id()), digest(command)}));
  if (found.rows.empty()) return std::optional<wire::CommandDone>{};
  const Row& row = found.rows[0];
  wire::CommandDone reply;
  reply.set_id(command.id());
  reply.set_ok(as_integer(row[2]) != 0);
  reply.set_error(as_text(row[3]));
  reply.set_output(as_text(row[4]));
  reply.set_exit_code(static_cast<std::uint32_t>(as_integer(row[5])));
  return std::optional(reply);
}

Status CommandLedger::done(const wire::Command& command, const wire::CommandDone& reply) {
  return database_->transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(database_->execute(
        insertion(command_rows(), "id"),
        with_checksum({static_cast<std::int64_t>(command.id()), digest(command), std::int64_t{reply.ok()},
                       reply.error(), reply.output(), std::int64_t{reply.exit_code()}})));
    return database_->execute("DELETE FROM commands WHERE id NOT IN (SELECT id FROM commands ORDER BY id DESC LIMIT ?)",
                              {kKept});
  });
}

}  // namespace trimtab::agent
