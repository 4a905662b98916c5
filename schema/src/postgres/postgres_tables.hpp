#pragma once

// Our tables on a server: recognizing, creating and upgrading them. A row of `trimtab_tables` for each kind of database
// says which version it has and how often it changed owners. Several kinds may share a schema, several schemas a
// database.
//
// Locks, of the server's advisory kind: every change holds the tables' shared lock, an upgrade the exclusive one, so
// none sees tables of two versions; an owner holds its kind's for as long as it is connected.

#include "postgres_session.hpp"
#include "schema/server_inspection.hpp"

namespace trimtab {

class PostgresTables {
 public:
  PostgresTables(const PostgresName& name, const Migrations& migrations) : name_(name.text), migrations_(migrations) {}

  // Recognizes what is there, then brings it to the newest version where the mode allows.
  [[nodiscard]] Status prepare(PostgresSession& session, DatabaseMode mode);
  // Where prepare() put a copy of what it upgraded; empty where it upgraded nothing.
  [[nodiscard]] const std::string& backup() const { return backup_; }
  // What a new connection must find: the same tables, of this release's version.
  [[nodiscard]] Status recognize(PostgresSession& session);
  // Looks alone.
  [[nodiscard]] Result<ServerInspection> inspect(PostgresSession& session, bool exclusive);
  // Owns the tables while the session lives. Refused when another owns them, or has since `owner` did (0: never owned).
  // Returns the number of this ownership.
  [[nodiscard]] Result<std::int64_t> own(PostgresSession& session, std::int64_t owner);

  // To begin a change with: waits for an upgrade, then gives the transaction's id and the tables' version.
  [[nodiscard]] std::vector<PostgresStatement> begin_change() const;
  [[nodiscard]] Status check_version(std::int64_t found) const;

 private:
  Result<std::int64_t> version(PostgresSession& session);  // 0: not there
  // What keeps the role from opening the tables for writing.
  Result<Status> missing_rights(PostgresSession& session, const ServerInspection& seen);
  Result<Status> upgrade_rights(PostgresSession& session, const ServerInspection& seen, const std::string& foreign);
  Status upgrade(PostgresSession& session);
  Status run_steps(PostgresSession& session);
  Result<bool> lock_as_owner(PostgresSession& session);
  Result<std::int64_t> take(PostgresSession& session);
  Result<std::int64_t> last_owner(PostgresSession& session);
  Result<std::string> owner_of(PostgresSession& session);  // empty: nobody
  [[nodiscard]] std::int64_t application() const { return migrations_.application_id; }
  [[nodiscard]] std::int64_t known() const { return static_cast<std::int64_t>(migrations_.server_steps.size()); }

  std::string name_;
  Migrations migrations_;
  std::int64_t schema_ = 0;  // its oid: part of every lock
  std::string backup_;
};

}  // namespace trimtab
