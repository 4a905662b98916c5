#include "agent_database.hpp"

#include <sys/random.h>
#include <algorithm>
#include <iterator>

#include "agent_migrations.hpp"

namespace trimtab::agent {

namespace {

constexpr std::uint32_t kApplicationId = 0x54544147;  // "TTAG"

std::string hexadecimal(std::uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text.push_back("0123456789abcdef"[(value >> shift) & 15U]);
  return text;
}

}  // namespace

Result<AgentDatabase> open_agent_database(const std::string& path, Random& random) {
  const Migrations migrations{
      kApplicationId, "agent database", {std::begin(kAgentMigrations), std::end(kAgentMigrations)}};
  TRIMTAB_TRY(auto database, Database::open(path, DatabaseMode::kCreate, migrations, /*exclusive=*/true));
  TRIMTAB_TRY_STATUS(
      database.execute("INSERT INTO identity (instance) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM identity)",
                       {hexadecimal(random.next())}));
  TRIMTAB_TRY(const auto rows, database.query("SELECT instance FROM identity"));
  if (rows.size() != 1) return unavailable("agent database " + path + ": it must name one instance. Move it away.");
  return AgentDatabase{std::move(database), as_text(rows[0][0])};
}

Result<BatchNumbers> batch_numbers(const Database& database) {
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT coordinator, renew, (SELECT MIN(id) FROM batches), (SELECT seq FROM "
                             "sqlite_sequence WHERE name = 'batches') FROM identity"));
  const Row& row = rows.at(0);
  BatchNumbers numbers;
  if (as_integer(row[1]) == 0) numbers.coordinator = as_text(row[0]);
  if (row[3].index() != 0) numbers.last = static_cast<std::uint64_t>(as_integer(row[3]));
  numbers.held_from = row[2].index() != 0 ? static_cast<std::uint64_t>(as_integer(row[2])) : numbers.last + 1;
  return numbers;
}

Status ask_renewal(Database& database, std::uint64_t stored) {
  return database.execute("UPDATE identity SET renew = 1, renew_above = MIN(renew_above, ?)",
                          {static_cast<std::int64_t>(std::min(stored, kEveryBatch))});
}

Result<std::uint64_t> last_to_send(const Database& database) {
  TRIMTAB_TRY(const auto rows, database.query("SELECT renew_above FROM identity WHERE renew = 1"));
  return rows.empty() ? kEveryBatch : static_cast<std::uint64_t>(as_integer(rows[0][0]));
}

Result<bool> renew_instance(AgentDatabase& opened, Random& random, const BeforeRenewal& before) {
  Database& database = opened.database;
  TRIMTAB_TRY(const auto due, database.query("SELECT 1 FROM identity WHERE renew = 1 AND NOT EXISTS "
                                             "(SELECT 1 FROM batches WHERE id <= renew_above)"));
  if (due.empty()) return false;
  const std::string instance = hexadecimal(random.next());
  TRIMTAB_TRY(const auto waiting, database.query("SELECT id FROM batches ORDER BY id"));
  TRIMTAB_TRY_STATUS(before(instance, waiting.size()));
  const auto renew = [&]() -> Status {
    TRIMTAB_TRY_STATUS(database.execute("UPDATE identity SET instance = ?, renew = 0, renew_above = ?",
                                        {instance, static_cast<std::int64_t>(kEveryBatch)}));
    // Each moves down, if at all, to where none is any more.
    Rows moves;
    for (const Row& row : waiting) moves.push_back({static_cast<std::int64_t>(moves.size()) + 1, row[0]});
    TRIMTAB_TRY_STATUS(database.execute_each("UPDATE batches SET id = ? WHERE id = ?", moves));
    return database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'batches'",
                            {static_cast<std::int64_t>(waiting.size())});
  };
  TRIMTAB_TRY_STATUS(database.transaction(renew));
  opened.instance = instance;
  return true;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  while (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
  }
  return seed;
}

Status RankLedger::put(const LedgerRank& rank) {
  return database_->execute(
      "INSERT OR REPLACE INTO ranks (job, variant, rank, launch, epoch, pid, start_time, said_bye, ended, exit_code, "
      "signal, watched_world_size) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {rank.id.job, rank.id.variant, std::int64_t{rank.id.rank}, static_cast<std::int64_t>(rank.launch),
       static_cast<std::int64_t>(rank.epoch), std::int64_t{rank.pid}, static_cast<std::int64_t>(rank.start_time),
       std::int64_t{rank.said_bye}, std::int64_t{rank.ended}, std::int64_t{rank.exit_code}, std::int64_t{rank.signal},
       std::int64_t{rank.watched_world_size}});
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
  TRIMTAB_TRY(
      const auto rows,
      database_->query("SELECT job, variant, rank, launch, epoch, pid, start_time, said_bye, ended, exit_code, signal, "
                       "watched_world_size FROM ranks ORDER BY job, variant, rank"));
  std::vector<LedgerRank> ranks;
  for (const auto& row : rows) {
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
    TRIMTAB_TRY(const auto known, database_->query("SELECT coordinator FROM identity"));
    if (coordinator.empty() || as_text(known[0][0]) == coordinator) return {};
    is_another = true;
    TRIMTAB_TRY_STATUS(database_->execute("DELETE FROM commands"));
    return database_->execute(
        "UPDATE identity SET coordinator = ?, renew = CASE WHEN (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence "
        "WHERE name = 'batches') > (SELECT COUNT(*) FROM batches) THEN 1 ELSE renew END",
        {coordinator});
  });
  if (!kept.ok()) return kept.error();
  return is_another;
}

Result<std::optional<wire::CommandDone>> CommandLedger::reply(const wire::Command& command) const {
  TRIMTAB_TRY(const auto rows,
              database_->query("SELECT ok, error, output, exit_code FROM commands WHERE id = ? AND digest = ?",
                               {static_cast<std::int64_t>(command.id()), digest(command)}));
  if (rows.empty()) return std::optional<wire::CommandDone>{};
  wire::CommandDone reply;
  reply.set_id(command.id());
  reply.set_ok(as_integer(rows[0][0]) != 0);
  reply.set_error(as_text(rows[0][1]));
  reply.set_output(as_text(rows[0][2]));
  reply.set_exit_code(static_cast<std::uint32_t>(as_integer(rows[0][3])));
  return std::optional(reply);
}

Status CommandLedger::done(const wire::Command& command, const wire::CommandDone& reply) {
  return database_->transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(database_->execute(
        "INSERT OR REPLACE INTO commands (id, digest, ok, error, output, exit_code) VALUES (?, ?, ?, ?, ?, ?)",
        {static_cast<std::int64_t>(command.id()), digest(command), std::int64_t{reply.ok()}, reply.error(),
         reply.output(), std::int64_t{reply.exit_code()}}));
    return database_->execute("DELETE FROM commands WHERE id NOT IN (SELECT id FROM commands ORDER BY id DESC LIMIT ?)",
                              {kKept});
  });
}

}  // namespace trimtab::agent
