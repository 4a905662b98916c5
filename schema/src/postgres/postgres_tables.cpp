#include "postgres_tables.hpp"

#include <chrono>

#include "postgres_backup.hpp"

namespace trimtab {

namespace {

constexpr int kOwnerQuestions = 5;
constexpr std::chrono::milliseconds kUpgradeLimit = std::chrono::minutes(60);
constexpr std::int64_t kTablesLock = 0x74724c31;  // "trL1"
// Shift the second number in: the lock functions take two of 32 bits.
constexpr const char* kLockTables = "SELECT pg_advisory_xact_lock((? << 32) | ?)";
constexpr const char* kShareTables = "SELECT pg_advisory_xact_lock_shared((? << 32) | ?)";
constexpr const char* kBeginChange = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
constexpr const char* kVersion = "SELECT version FROM trimtab_tables WHERE application = ?";

std::string versions_text(const std::string& name, const char* kind, std::int64_t found) {
  return name + " is a " + kind + " of version " + std::to_string(found) + ", but this release ";
}

}  // namespace

Result<std::int64_t> PostgresTables::version(PostgresSession& session) {
  TRIMTAB_TRY(const Rows schema, session.run("SELECT oid::int8, to_regclass(quote_ident(nspname) || '.trimtab_tables') "
                                             "IS NOT NULL FROM pg_namespace WHERE nspname = current_schema()"));
  if (schema.empty()) {
    return bad_input(name_ +
                     ": the role's search_path names no schema that exists. Make one: CREATE SCHEMA trimtab "
                     "AUTHORIZATION role; ALTER ROLE role SET search_path = trimtab");
  }
  schema_ = as_integer(schema[0][0]);
  if (as_integer(schema[0][1]) == 0) return std::int64_t{0};
  TRIMTAB_TRY(const Rows rows, session.run(kVersion, {application()}));
  return rows.empty() ? std::int64_t{0} : as_integer(rows[0][0]);
}

Status PostgresTables::check_version(std::int64_t found) const {
  if (found == known()) return {};
  if (found > known()) {
    return bad_input(versions_text(name_, migrations_.kind, found) + "knows versions up to " + std::to_string(known()) +
                     "; nothing was changed. Use the release that wrote it, or a newer one");
  }
  if (found == 0) {
    return unavailable("there is no " + std::string(migrations_.kind) + " at " + name_ +
                       ": the schema has no tables of it. A program that may write there makes them, such as a "
                       "coordinator, or 'trimtab db merge'");
  }
  return bad_input(versions_text(name_, migrations_.kind, found) + "reads version " + std::to_string(known()) +
                   ". Open it once for writing, which upgrades it and keeps a copy of the old tables");
}

Status PostgresTables::recognize(PostgresSession& session) {
  TRIMTAB_TRY(const std::int64_t found, version(session));
  return check_version(found);
}

Status PostgresTables::prepare(PostgresSession& session, DatabaseMode mode) {
  TRIMTAB_TRY(const std::int64_t found, version(session));
  const bool make = found == 0 && mode == DatabaseMode::kCreate;
  const bool renew = found > 0 && found < known() && mode != DatabaseMode::kReadOnly;
  if (!make && !renew) return check_version(found);
  const std::chrono::milliseconds limit = session.limit();
  session.allow(kUpgradeLimit);
  const Status upgraded = upgrade(session);
  session.allow(limit);
  if (upgraded.ok()) return {};
  if (!session.lost()) (void)session.script("ROLLBACK");
  const std::string what =
      make ? "create the tables; nothing was changed"
           : "upgrade from version " + std::to_string(found) + " to " + std::to_string(known()) + "; it is unchanged";
  return wrap("cannot " + what, upgraded.error());
}

// One transaction, alone, which takes as long as tables are large.
Status PostgresTables::upgrade(PostgresSession& session) {
  TRIMTAB_TRY_STATUS(session.script(kBeginChange));
  TRIMTAB_TRY_STATUS(session.script("SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on"));
  TRIMTAB_TRY_STATUS(session.run(kLockTables, {kTablesLock, schema_}));
  TRIMTAB_TRY_STATUS(run_steps(session));
  TRIMTAB_TRY_STATUS(session.run("COMMIT"));
  return {};
}

Status PostgresTables::run_steps(PostgresSession& session) {
  TRIMTAB_TRY_STATUS(session.script(
      "CREATE TABLE IF NOT EXISTS trimtab_tables (application BIGINT PRIMARY KEY, version BIGINT NOT NULL, "
      "owner BIGINT NOT NULL DEFAULT 0)"));
  // Another process may have been here since.
  TRIMTAB_TRY(const std::int64_t from, version(session));
  if (from > known()) return check_version(from);
  if (from > 0 && from < known()) {
    TRIMTAB_TRY(const std::string copy, back_up_tables(session, {migrations_, from, schema_}));
    backup_ = "the schema " + copy;
  }
  for (std::int64_t i = from; i < known(); ++i) {
    TRIMTAB_TRY_STATUS(session.script(migrations_.server_steps[static_cast<std::size_t>(i)]));
  }
  TRIMTAB_TRY_STATUS(
      session.run("INSERT INTO trimtab_tables (application, version) VALUES (?, ?) "
                  "ON CONFLICT (application) DO UPDATE SET version = excluded.version",
                  {application(), known()}));
  return {};
}

Result<std::int64_t> PostgresTables::own(PostgresSession& session, std::int64_t owner) {
  TRIMTAB_TRY(const bool locked, lock_as_owner(session));
  if (!locked) {
    TRIMTAB_TRY(const std::string other, owner_of(session));
    return unavailable(name_ + " belongs to " + (other.empty() ? "another program" : other) +
                       ", which is still connected. Stop it first, or give this one a schema of its own");
  }
  TRIMTAB_TRY(const std::int64_t found, owner == 0 ? take(session) : last_owner(session));
  if (owner == 0 || found == owner) return found;
  return unavailable(name_ +
                     " was taken over by another program while the connection to it was lost; what this one "
                     "knows is out of date. Restart it, or leave it stopped if the other replaces it");
}

// A server needs a moment to see that the last owner is gone.
Result<bool> PostgresTables::lock_as_owner(PostgresSession& session) {
  for (int question = 0; question < kOwnerQuestions; ++question) {
    if (question > 0) TRIMTAB_TRY_STATUS(session.run("SELECT pg_sleep(0.1)"));
    TRIMTAB_TRY(const Rows rows, session.run("SELECT pg_try_advisory_lock((? << 32) | ?)", {application(), schema_}));
    if (as_integer(rows[0][0]) != 0) return true;
  }
  return false;
}

Result<std::int64_t> PostgresTables::take(PostgresSession& session) {
  TRIMTAB_TRY(const auto answers,
              session.run_all({{kBeginChange},
                               {"UPDATE trimtab_tables SET owner = owner + 1 WHERE application = ? RETURNING owner",
                                {application()}},
                               {"COMMIT"}}));
  return answers[1].empty() ? std::int64_t{-1} : as_integer(answers[1][0][0]);
}

Result<std::int64_t> PostgresTables::last_owner(PostgresSession& session) {
  TRIMTAB_TRY(const Rows rows, session.run("SELECT owner FROM trimtab_tables WHERE application = ?", {application()}));
  return rows.empty() ? std::int64_t{-1} : as_integer(rows[0][0]);
}

Result<std::string> PostgresTables::owner_of(PostgresSession& session) {
  TRIMTAB_TRY(const Rows rows,
              session.run("SELECT a.pid, COALESCE(host(a.client_addr), 'this machine') FROM pg_locks l JOIN "
                          "pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.granted AND "
                          "l.objsubid = 1 AND l.classid::int8 = ? AND l.objid::int8 = ? LIMIT 1",
                          {application(), schema_}));
  if (rows.empty()) return std::string();
  return "a program on " + as_text(rows[0][1]) + " (server process " + std::to_string(as_integer(rows[0][0])) + ")";
}

std::vector<PostgresStatement> PostgresTables::begin_change() const {
  return {
      {"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"},
      {kShareTables, {kTablesLock, schema_}},
      {"SELECT pg_current_xact_id()::text::int8, version FROM trimtab_tables WHERE application = ?", {application()}}};
}

}  // namespace trimtab
