#pragma once

// What a Database stands on: SQLite (sqlite_database.hpp) or PostgreSQL (postgres/postgres_database.hpp). Its functions
// mean what those of Database of the same name mean.

#include <string>
#include <vector>

#include "base/result.hpp"
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
};

}  // namespace trimtab
