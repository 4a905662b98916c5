#include "postgres_backup.hpp"

namespace trimtab {

namespace {

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

}  // namespace

Result<std::string> back_up_tables(PostgresSession& session, const PostgresCopied& copied) {
  TRIMTAB_TRY_STATUS(check_right(session));
  TRIMTAB_TRY(const std::string name, free_name(session, copied));
  TRIMTAB_TRY_STATUS(session.run(kKeepPath));
  TRIMTAB_TRY_STATUS(session.script("CREATE SCHEMA " + name + "; SET LOCAL search_path = " + name));
  TRIMTAB_TRY_STATUS(fill(session, copied));
  TRIMTAB_TRY_STATUS(session.run(kOldPath));
  return name;
}

}  // namespace trimtab
