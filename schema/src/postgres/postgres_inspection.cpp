// PostgresTables::inspect(): what a role may do with our tables, without doing it.

#include <string>
#include <string_view>

#include "postgres_tables.hpp"

namespace trimtab {

namespace {

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
  for (const std::string& step : steps) {
    if (step.find(words) != std::string::npos) return true;
  }
  return false;
}

void add_to(std::string& list, const std::string& name) {
  list += (list.empty() ? "" : ", ") + name;
}

}  // namespace

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
