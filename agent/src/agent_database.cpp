#include "agent_database.hpp"

#include <sys/random.h>

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

Result<bool> renew_instance(AgentDatabase& opened, Random& random) {
  Database& database = opened.database;
  TRIMTAB_TRY(const auto due,
              database.query("SELECT 1 FROM identity WHERE renew = 1 AND NOT EXISTS (SELECT 1 FROM batches)"));
  if (due.empty()) return false;
  const std::string instance = hexadecimal(random.next());
  const auto renew = [&]() -> Status {
    TRIMTAB_TRY_STATUS(database.execute("UPDATE identity SET instance = ?, renew = 0", {instance}));
    return database.execute("DELETE FROM sqlite_sequence WHERE name = 'batches'");
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
