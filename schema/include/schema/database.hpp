#pragma once

// Opening an SQLite file of ours: WAL mode, application id, migrations in a transaction, and the refusals (read-only,
// foreign, newer, locked by a second owner), each with what to do. Used by the cost database, the agent's spool and
// the coordinator's state; the only code that names SQLite. Not thread-safe: one owner thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"

namespace trimtab {

// One migration: the text of a schema/sql/NNNN_*.sql file. A database's version is how many it has had.
struct Migrations {
  std::uint32_t application_id = 0;  // tells our kinds of files apart, and from others'
  const char* kind = "";             // "cost database", for messages
  std::vector<std::string> steps;
};

using Value = std::variant<std::monostate, std::int64_t, double, std::string>;
using Row = std::vector<Value>;

enum class DatabaseMode { kCreate, kReadWrite, kReadOnly };

class Database {
 public:
  // `exclusive` also takes a lock file beside the database for this object's lifetime: a second daemon on the same state
  // is refused, with the pid of the first.
  [[nodiscard]] static Result<Database> open(const std::string& path, DatabaseMode mode, const Migrations& migrations,
                                             bool exclusive = false);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  [[nodiscard]] Status execute(const std::string& sql, const std::vector<Value>& arguments = {});
  [[nodiscard]] Result<std::vector<Row>> query(const std::string& sql, const std::vector<Value>& arguments = {}) const;
  // Runs `body` in a transaction; commits when it returns ok, else rolls back and returns its error. Does not nest.
  [[nodiscard]] Status transaction(const std::function<Status()>& body);
  [[nodiscard]] std::int64_t last_insert_id() const;
  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] const std::string& path() const;

 private:
  struct Implementation;
  explicit Database(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

// REQUIRES: the value holds that type (our own schema says so).
[[nodiscard]] std::int64_t as_integer(const Value& value);
[[nodiscard]] double as_real(const Value& value);
[[nodiscard]] const std::string& as_text(const Value& value);

}  // namespace trimtab
