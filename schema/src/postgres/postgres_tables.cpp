#include "postgres_tables.hpp"

#include <algorithm>

#include "store/database_backend.hpp"

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

// A copy of one kind's tables, in a schema of its own, before they are upgraded: a database of the former version, with
// its keys, triggers and counters, that the release before opens as it is.

// What is copied: the tables that the first `version` steps make in the schema `schema` (its oid).
struct PostgresCopied {
  const Migrations& migrations;
  std::int64_t version = 0;
  std::int64_t schema = 0;
};

constexpr const char* kRight =
    "SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_user), "
    "quote_ident(current_database())";

// A name for the copy, and whether it is taken. A long schema's own is cut, not what follows it.
constexpr int kMostCopies = 1000;
constexpr const char* kName =
    "SELECT quote_ident(name), EXISTS (SELECT FROM pg_namespace WHERE nspname = name) FROM (SELECT left(nspname, "
    "max(length)) || suffix AS name FROM pg_namespace, generate_series(1, 63) length, (SELECT '_backup_v' || ?1::text "
    "|| "
    "CASE ?2 WHEN 1 THEN '' ELSE '_' || ?2::text END AS suffix) AS suffixes WHERE oid = ?3::oid AND octet_length("
    "left(nspname, length) || suffix) <= current_setting('max_identifier_length')::int GROUP BY nspname, suffix) names";

constexpr const char* kKeepPath = "SELECT set_config('trimtab.search_path', current_setting('search_path'), true)";
constexpr const char* kOldPath = "SELECT set_config('search_path', current_setting('trimtab.search_path'), true)";

constexpr const char* kTablesRow =
    "SELECT format('CREATE TABLE trimtab_tables (LIKE %1$I.trimtab_tables INCLUDING ALL); INSERT INTO trimtab_tables "
    "SELECT * FROM %1$I.trimtab_tables WHERE application = %2$s', nspname, ?) FROM pg_namespace WHERE oid = ?::oid";

// Statements that are run one after the other, in the copy's schema. References are made again in the end: tables are
// filled in any order then, and checked at once.
constexpr const char* kDropReferences =
    "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint "
    "WHERE contype = 'f' AND connamespace = current_schema()::regnamespace";
constexpr const char* kAddReferences =
    "SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) "
    "FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace";
// The steps may have put rows there already.
constexpr const char* kCopyRows =
    "SELECT format('DELETE FROM %1$I; INSERT INTO %1$I (%2$s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM %3$I.%1$I', "
    "relname, string_agg(quote_ident(attname), ', ' ORDER BY attnum), nspname) FROM pg_class c JOIN pg_attribute a ON "
    "attrelid = c.oid AND attnum > 0 AND NOT attisdropped, pg_namespace n WHERE n.oid = ?::oid AND relnamespace = "
    "current_schema()::regnamespace AND relkind = 'r' GROUP BY relname, nspname";
constexpr const char* kCopyCounters =
    "SELECT format('SELECT setval(%L, last_value, is_called) FROM %s', pg_get_serial_sequence(quote_ident(relname), "
    "attname), pg_get_serial_sequence(format('%I.%I', nspname, relname), attname)) FROM pg_class c JOIN pg_attribute a "
    "ON attrelid = c.oid AND attidentity <> '' AND NOT attisdropped, pg_namespace n WHERE n.oid = ?::oid AND "
    "relnamespace = current_schema()::regnamespace AND relkind = 'r'";

Result<std::vector<std::string>> texts(PostgresSession& session, const std::string& sql, const Row& arguments = {}) {
  TRIMTAB_TRY(const Rows rows, session.run(sql, arguments));
  std::vector<std::string> found;
  for (const Row& row : rows) found.push_back(as_text(row.at(0)));
  return found;
}

Status run_each(PostgresSession& session, const std::vector<std::string>& statements) {
  for (const std::string& statement : statements) TRIMTAB_TRY_STATUS(session.script(statement));
  return {};
}

Status check_right(PostgresSession& session) {
  TRIMTAB_TRY(const Rows rows, session.run(kRight));
  const Row& row = rows.at(0);
  if (as_integer(row[0]) != 0) return {};
  const std::string& role = as_text(row[1]);
  const std::string& database = as_text(row[2]);
  return unavailable("an upgrade first copies the tables to a schema of its own, and the role " + role +
                     " may not make one in the database " + database + ". GRANT CREATE ON DATABASE " + database +
                     " TO " + role + ", which may be revoked after the upgrade, then try again");
}

// In the copy's schema, where the steps make the tables of that version.
Status fill(PostgresSession& session, const PostgresCopied& copied) {
  for (std::int64_t i = 0; i < copied.version; ++i) {
    TRIMTAB_TRY_STATUS(session.script(copied.migrations.server_steps[static_cast<std::size_t>(i)]));
  }
  TRIMTAB_TRY(const auto references, texts(session, kAddReferences));
  TRIMTAB_TRY(const auto drops, texts(session, kDropReferences));
  TRIMTAB_TRY_STATUS(run_each(session, drops));
  TRIMTAB_TRY(const auto rows, texts(session, kCopyRows, {copied.schema}));
  TRIMTAB_TRY_STATUS(run_each(session, rows));
  TRIMTAB_TRY(const auto counters, texts(session, kCopyCounters, {copied.schema}));
  TRIMTAB_TRY_STATUS(run_each(session, counters));
  TRIMTAB_TRY_STATUS(run_each(session, references));
  const std::int64_t application = copied.migrations.application_id;
  TRIMTAB_TRY(const auto tables_row, texts(session, kTablesRow, {application, copied.schema}));
  return run_each(session, tables_row);
}

Result<std::string> free_name(PostgresSession& session, const PostgresCopied& copied) {
  for (std::int64_t number = 1; number <= kMostCopies; ++number) {
    TRIMTAB_TRY(const Rows rows, session.run(kName, {copied.version, number, copied.schema}));
    if (as_integer(rows.at(0)[1]) == 0) return as_text(rows[0][0]);
  }
  return unavailable("there are " + std::to_string(kMostCopies) +
                     " copies of these tables already. DROP the schemas of those that nobody needs, then try again");
}

// Returns the copy's schema, quoted where SQL needs that: SCHEMA_backup_vVERSION, numbered where there is one already;
// none is replaced. Refused where the role may not make schemas. REQUIRES: inside the upgrade's transaction, whose end
// decides on the copy, too. Leaves the transaction's search_path as it was.
Result<std::string> back_up_tables(PostgresSession& session, const PostgresCopied& copied) {
  TRIMTAB_TRY_STATUS(check_right(session));
  TRIMTAB_TRY(const std::string name, free_name(session, copied));
  TRIMTAB_TRY_STATUS(session.run(kKeepPath));
  TRIMTAB_TRY_STATUS(session.script("CREATE SCHEMA " + name + "; SET LOCAL search_path = " + name));
  TRIMTAB_TRY_STATUS(fill(session, copied));
  TRIMTAB_TRY_STATUS(session.run(kOldPath));
  return name;
}

// What a role may do with our tables, without doing it.

constexpr const char* kServer =
    "SELECT 'PostgreSQL ' || current_setting('server_version'), quote_ident(current_user), pg_is_in_recovery()";
constexpr const char* kMakeRights =
    "SELECT has_schema_privilege(nspname, 'CREATE'), quote_ident(nspname) FROM pg_namespace WHERE oid = ?::oid";
constexpr const char* kCopyRight =
    "SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_database())";
constexpr const char* kTableRights =
    "SELECT relname::text, has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') AND "
    "has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'), pg_has_role(relowner, 'USAGE') "
    "FROM pg_class WHERE relnamespace = ?::oid AND relkind IN ('r', 'p') ORDER BY relname";

// Whether one of the steps makes it.
bool makes(const std::vector<std::string>& steps, const std::string& table) {
  const std::string words = "CREATE TABLE " + table + " (";
  return std::ranges::any_of(steps, [&](const std::string& step) { return step.find(words) != std::string::npos; });
}

void add_to(std::string& list, const std::string& name) {
  list += (list.empty() ? "" : ", ") + name;
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
  if (found != 0) return other_version(name_, migrations_.kind, found, known());
  return unavailable("there is no " + std::string(migrations_.kind) + " at " + name_ +
                     ": the schema has no tables of it. A program that may write there makes them, such as a "
                     "coordinator, or 'trimtab db merge'");
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
      {kBeginChange},
      {kShareTables, {kTablesLock, schema_}},
      {"SELECT pg_current_xact_id()::text::int8, version FROM trimtab_tables WHERE application = ?", {application()}}};
}

Result<ServerInspection> PostgresTables::inspect(PostgresSession& session, bool exclusive) {
  ServerInspection seen;
  TRIMTAB_TRY(const Rows server, session.run(kServer));
  seen.server = as_text(server.at(0)[0]);
  seen.role = as_text(server[0][1]);
  seen.known = known();
  TRIMTAB_TRY(seen.version, version(session));
  if (exclusive) {
    TRIMTAB_TRY(seen.owner, owner_of(session));
  }
  if (as_integer(server[0][2]) != 0) {
    seen.writable = unavailable(name_ + ": a change needs a server that may be written, but this is a standby. Name " +
                                "the primary, or list both hosts and add target_session_attrs=read-write");
    return seen;
  }
  if (seen.version > seen.known) {
    seen.writable = check_version(seen.version);
    return seen;
  }
  TRIMTAB_TRY(seen.writable, missing_rights(session, seen));
  return seen;
}

// To make the tables, to upgrade them, or to change what is in them.
Result<Status> PostgresTables::missing_rights(PostgresSession& session, const ServerInspection& seen) {
  if (seen.version == 0) {
    TRIMTAB_TRY(const Rows rights, session.run(kMakeRights, {schema_}));
    const std::string schema = rights.empty() ? "" : as_text(rights[0][1]);
    if (!rights.empty() && as_integer(rights[0][0]) != 0) return Status();
    return Status(unavailable(name_ + ": the role must make the tables of the " + migrations_.kind + ", but " +
                              seen.role + " may make none in the schema " + schema + ". GRANT CREATE ON SCHEMA " +
                              schema + " TO " + seen.role + ", or make it the schema's owner"));
  }
  TRIMTAB_TRY(const Rows tables, session.run(kTableRights, {schema_}));
  std::string closed;
  std::string foreign;
  for (const Row& table : tables) {
    const std::string& name = as_text(table[0]);
    if (name != "trimtab_tables" && !makes(migrations_.server_steps, name)) continue;
    if (as_integer(table[1]) == 0) add_to(closed, name);
    if (as_integer(table[2]) == 0) add_to(foreign, name);
  }
  if (seen.version < seen.known) return upgrade_rights(session, seen, foreign);
  if (closed.empty()) return Status();
  return Status(unavailable(name_ + ": the role must read and change its tables, but " + seen.role +
                            " may not do so with " + closed + ". Let their owner GRANT SELECT, INSERT, UPDATE, " +
                            "DELETE on them to " + seen.role + ", or make the role their owner"));
}

Result<Status> PostgresTables::upgrade_rights(PostgresSession& session, const ServerInspection& seen,
                                              const std::string& foreign) {
  const std::string needed = name_ + ": this release must upgrade the tables, but " + seen.role;
  if (!foreign.empty()) {
    return Status(unavailable(needed + " does not own " + foreign +
                              ". Let the role that owns them open the database for writing once, such as with "
                              "'trimtab db merge', or make this role their owner"));
  }
  TRIMTAB_TRY(const Rows copy, session.run(kCopyRight));
  if (as_integer(copy.at(0)[0]) != 0) return Status();
  return Status(unavailable(needed + " may not make a schema for the copy of them. GRANT CREATE ON DATABASE " +
                            as_text(copy[0][1]) + " TO " + seen.role + ", which may be revoked after the upgrade"));
}

}  // namespace trimtab
