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

}  // namespace trimtab::agent
