#pragma once

// Opening a database of ours: an SQLite file (the default), or tables in PostgreSQL, which "postgresql://..." names and
// several coordinators share. Recognizing, creating, upgrading in a transaction, and the refusals (read-only, foreign,
// newer, owned by another), each with what to do. Used by the cost database, the agent's spool and the coordinator's
// state; the only code that names SQLite and libpq. Not thread-safe: one owner thread.
//
// Statements are those that both understand, with ? or ?1 for arguments; a conflict is resolved by ON CONFLICT. Texts
// are bytes: any are stored as they are, and compare as such.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab {

using Value = std::variant<std::monostate, std::int64_t, double, std::string>;
using Row = std::vector<Value>;
using Rows = std::vector<Row>;

// A table whose rows carry a checksum of these columns, in this order, in their column `checksum`.
struct CheckedTable {
  std::string name;
  std::vector<std::string> columns;
  // Whether these values mean anything. Asked where a file of a version without checksums is upgraded: what does not is
  // set apart. Values have their columns' types, and are NULL only where that may be. Empty: all do.
  std::function<Status(const Row&)> check = {};
};

// One migration: the text of a schema/sql/NNNN_*.sql file. A database's version is how many it has had.
struct Migrations {
  std::uint32_t application_id = 0;            // tells our kinds of files apart, and from others'
  const char* kind = "";                       // "cost database", for messages
  std::vector<std::string> steps;              // of a file
  std::vector<std::string> server_steps = {};  // of PostgreSQL, counted on their own; none: this kind is always a file
  // What is checked whenever a file is opened. What cannot be read then is set apart: noted in the table set_apart,
  // which the steps make, and the file as it was is kept beside the new one. Empty: nothing is.
  std::vector<CheckedTable> checked = {};
  std::vector<std::string> after_salvage = {};  // run where something was set apart
  // A larger file is not checked when it is opened: its rows are as they are read, and by look_after(). Damage that is
  // found then leaves the empty file PATH.suspect, and the next who opens it for writing checks it whatever its size.
  Bytes checked_up_to = std::numeric_limits<Bytes>::max();
};

enum class DatabaseMode { kCreate, kReadWrite, kReadOnly };

// Whether a database's name is a server's (postgresql://, postgres://), not a path.
[[nodiscard]] bool names_server(std::string_view name);

// What a database takes on disk, its log included; nothing of a server's, or where no file is.
[[nodiscard]] std::optional<Bytes> bytes_on_disk(const std::string& name);

class DatabaseBackend;

struct DatabaseHealth {
  std::string name;
  std::string out_of_place;        // why nothing is stored; empty: it is
  std::uint64_t written_back = 0;  // how often since it was opened
  std::uint64_t set_apart = 0;     // rows, and parts of tables, that could not be read when it was opened, ever
  std::string kept_as;             // a copy of what was found damaged when it was opened now; empty: nothing was
  bool is_log_watched = true;      // false: PATH-confirmed cannot be written, so that a cut log would not be noticed
  std::uint64_t unreadable = 0;    // rows that were read since and did not have their checksum
  // Of a file that was too large to be checked when it was opened: that goes on, and how many rows it has read.
  bool is_checking = false;
  std::uint64_t checked_rows = 0;
};

// Rows that have their checksum, without it; and those that do not have theirs, whose values may be of any type.
struct CheckedRows {
  Rows rows;
  Rows damaged;
};

class Database {
 public:
  // `name`: a path, or postgresql://[USER@]HOST[:PORT]/DATABASE[?PARAMETER=VALUE...] without a password in it (libpq
  // takes that from a file). `exclusive` also takes ownership for this object's lifetime: a second daemon on the same
  // state is refused, and told of the first.
  [[nodiscard]] static Result<Database> open(const std::string& name, DatabaseMode mode, const Migrations& migrations,
                                             bool exclusive = false);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  // Inside the open transaction, or as one of its own.
  [[nodiscard]] Status execute(const std::string& sql, const Row& arguments = {});
  // The same for a change that ends with RETURNING: its rows.
  [[nodiscard]] Result<Rows> execute_returning(const std::string& sql, const Row& arguments = {});
  // The same change once for each list of arguments; one round trip for many. REQUIRES: inside transaction().
  [[nodiscard]] Status execute_each(const std::string& sql, const Rows& arguments);

  // Reads only.
  [[nodiscard]] Result<Rows> query(const std::string& sql, const Row& arguments = {}) const;
  // Of a table with checksums: its columns, in their order, of the rows that `rest` (WHERE, ORDER BY, LIMIT) says. A
  // row without its checksum is left out and counted, whatever the types of its values are. REQUIRES: one of the
  // migrations'.
  [[nodiscard]] Result<CheckedRows> query_checked(const CheckedTable& table, const std::string& rest = "",
                                                  const Row& arguments = {}) const;
  // The same question for each list of arguments, answered in their order. For answers of few rows.
  [[nodiscard]] Result<std::vector<Rows>> query_each(const std::string& sql, const Rows& arguments) const;

  // Runs `body` in a transaction; commits when it returns ok, else rolls back and returns its error. Does not nest. On
  // a server `body` runs again when the connection was lost or another session was in the way (a deadlock): it must
  // leave nothing behind that a second run would add to. Whether it was committed is certain, also where the connection
  // was lost meanwhile: else the error says so. A file has one writer. On a server others' commits become visible
  // between two statements of `body`: what it reads and then changes must be locked first, by a SELECT that ends with
  // row_lock().
  [[nodiscard]] Status transaction(const std::function<Status()>& body);
  // Runs `body`, whose queries all see the database as it is at the first one. Other databases may change meanwhile.
  [[nodiscard]] Status snapshot(const std::function<Status()>& body) const;
  // " FOR UPDATE" on a server; empty where nobody else can write.
  [[nodiscard]] std::string row_lock() const;
  [[nodiscard]] const std::string& name() const;
  // Where open() put a copy of an older version before it upgraded that: a file's path, or "the schema NAME" of the
  // server; empty where it upgraded nothing.
  [[nodiscard]] const std::string& backup() const;

  // Whether what is stored here is where the next process looks for it: the path still names the file that is open.
  // Every change asks that first, and fails where it is not. A file that was removed meanwhile is written back, with
  // all that the open one holds. One that another file has replaced is not touched: the error says what to do. Nothing
  // to ask of a server, or of a database that is only read. Costs two looks at the file system.
  [[nodiscard]] Status keep_in_place();
  // The same, as a daemon tells it. To be called now and then, also where nothing is stored. In a file that was too
  // large to be checked when it was opened it reads on for 4 ms.
  [[nodiscard]] DatabaseHealth look_after();

 private:
  explicit Database(std::unique_ptr<DatabaseBackend> backend);
  std::unique_ptr<DatabaseBackend> backend_;
};

// Of a row's checked values, in their order: what its column `checksum` holds. Never 0.
[[nodiscard]] std::int64_t row_checksum(const Row& values);
// The values with their checksum behind them, for an INSERT.
[[nodiscard]] Row with_checksum(Row values);

// The insertion of a row of with_checksum(). `key`: takes the place of the one that has the same in these columns.
[[nodiscard]] std::string insertion(const CheckedTable& table, const std::string& key = "");
// The table's checked columns, with commas.
[[nodiscard]] std::string columns_of(const CheckedTable& table);

// REQUIRES: the value holds that type (our own schema says so).
[[nodiscard]] std::int64_t as_integer(const Value& value);
[[nodiscard]] double as_real(const Value& value);
[[nodiscard]] const std::string& as_text(const Value& value);

}  // namespace trimtab
