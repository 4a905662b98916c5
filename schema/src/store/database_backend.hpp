#pragma once

// What a Database stands on: SQLite (sqlite_database.cpp) or PostgreSQL (postgres/). Its functions mean what those of
// Database of the same name mean.

#include "schema/database.hpp"

namespace trimtab {

class DatabaseBackend {
 public:
  DatabaseBackend() = default;
  virtual ~DatabaseBackend() = default;
  DatabaseBackend(const DatabaseBackend&) = delete;
  DatabaseBackend& operator=(const DatabaseBackend&) = delete;

  [[nodiscard]] virtual Result<Rows> change(const std::string& sql, const Row& arguments) = 0;
  [[nodiscard]] virtual Status change_each(const std::string& sql, const Rows& arguments) = 0;
  [[nodiscard]] virtual Result<Rows> query(const std::string& sql, const Row& arguments) = 0;
  [[nodiscard]] virtual Result<std::vector<Rows>> query_each(const std::string& sql, const Rows& arguments) = 0;
  [[nodiscard]] virtual Status transaction(const std::function<Status()>& body) = 0;
  [[nodiscard]] virtual Status snapshot(const std::function<Status()>& body) = 0;
  [[nodiscard]] virtual std::string row_lock() const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const std::string& backup() const = 0;
  [[nodiscard]] virtual Status keep_in_place() = 0;
  // Reads on in what was not checked at the beginning, for a few milliseconds.
  virtual void check_some() {}
  // Everything but `name` and `out_of_place`.
  [[nodiscard]] virtual DatabaseHealth health() const = 0;
  [[nodiscard]] virtual Result<CheckedRows> query_checked(const std::string& sql, const Row& arguments) = 0;
};

// Takes a row, which ends with its checksum, where that is right. `may_lack`: also where it has none.
void keep_whole(CheckedRows& found, Row row, bool may_lack);

// In an SQLite file: WAL mode, an application id, one writer at a time.
[[nodiscard]] Result<std::unique_ptr<DatabaseBackend>> open_sqlite(const std::string& path, DatabaseMode mode,
                                                                   const Migrations& migrations, bool exclusive);
// On a PostgreSQL server, through libpq. Without libpq at build time it says what is missing.
[[nodiscard]] Result<std::unique_ptr<DatabaseBackend>> open_postgres(const std::string& name, DatabaseMode mode,
                                                                     const Migrations& migrations, bool exclusive);

// The refusal of a database that is newer, or of a server's that is older and may not be upgraded.
[[nodiscard]] Error other_version(const std::string& name, const char* kind, std::int64_t found, std::int64_t known);

// A server's name for messages where it was not accepted: without a password and without parameters.
[[nodiscard]] std::string without_secrets(const std::string& name);

}  // namespace trimtab
