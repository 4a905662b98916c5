#include <map>

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include "base/check.hpp"
#include "documents/json_document.hpp"
#include "store/database_backend.hpp"
#include "store/database_open.hpp"
#include "store/database_place.hpp"

namespace trimtab {

namespace {

// Statement texts come from code, not from data; the bound is for callers who build them all the same.
constexpr std::size_t kMaxPrepared = 128;

// In words that say what to do. `what`: the kind of file ("cost database").
Error sqlite_failure(const SQLite::Exception& failure, const std::string& what, const std::string& path) {
  const std::string subject = what + " " + path;
  // It may repeat what stands in a file that somebody else wrote.
  const std::string reason =
      valid_text(failure.what()) + " (SQLite " + std::to_string(failure.getExtendedErrorCode()) + ")";
  switch (failure.getErrorCode()) {
    case SQLITE_FULL:
      return unavailable(subject +
                         ": the disk is full; nothing of this change was stored. Free space there, then try again");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return unavailable(subject + ": another program has kept it locked for 5 s; nothing of this change was stored. " +
                         "Wait for that program or stop it, then try again");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return unavailable(subject +
                         ": needs a file that may be read and written and a directory that takes new files: " + reason +
                         ". Check their permissions, or give another path");
    case SQLITE_NOTADB:
      return bad_input(subject + ": this file is not an SQLite database; nothing was changed. Give another path");
    case SQLITE_CORRUPT:
      return bad_input(subject + ": the file is damaged: " + reason + ". Put a backup in its place");
    case SQLITE_IOERR:
      if (failure.getExtendedErrorCode() == SQLITE_IOERR_FSYNC) {
        return unavailable(subject + ": the disk did not confirm that it has what was written: " + reason +
                           "; nothing of this change counts as stored. Look for the disk's errors in the kernel's log");
      }
      return unavailable(subject + ": reading or writing failed: " + reason +
                         "; nothing of this change was stored. Check the disk and its free space");
    default:
      return bad_input(subject + ": " + reason);
  }
}

void bind(SQLite::Statement& statement, int index, const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    statement.bind(index, *integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    statement.bind(index, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    statement.bind(index, *text);
  } else {
    statement.bind(index);
  }
}

Value value_of(const SQLite::Column& column) {
  if (column.isInteger()) return column.getInt64();
  if (column.isFloat()) return column.getDouble();
  if (column.isNull()) return std::monostate{};
  return column.getString();
}

// By its first letter; 0 of an expression, whose statement says by itself what it makes, and of what our tables lack.
char declared_type(const SQLite::Statement& statement, int column) {
  try {
    const char first = statement.getColumnDeclaredType(column)[0];
    return first == 'I' || first == 'R' || first == 'T' ? first : '\0';
  } catch (const SQLite::Exception&) {
    return '\0';
  }
}

// SQLite stores a type with each value, and in a file from elsewhere that need not be the column's. Our columns hold no
// NULL but those that are read through an expression.
bool fits(char declared, const SQLite::Column& column) {
  if (declared == 'I') return column.isInteger();
  if (declared == 'R') return column.isFloat() || column.isInteger();
  return declared != 'T' || column.isText() || column.isBlob();
}

struct Prepared {
  Prepared(SQLite::Database& connection, const std::string& sql) : statement(connection, sql) {
    for (int i = 0; i < statement.getColumnCount(); ++i) declared.push_back(declared_type(statement, i));
  }

  Row row() {
    Row row;
    for (int i = 0; i < statement.getColumnCount(); ++i) {
      const SQLite::Column column = statement.getColumn(i);
      if (!fits(declared[static_cast<std::size_t>(i)], column)) {
        throw SQLite::Exception(std::string("column ") + column.getName() + " has a value of another type",
                                SQLITE_CORRUPT);
      }
      row.push_back(value_of(column));
    }
    return row;
  }

  SQLite::Statement statement;
  std::string declared;  // a letter for each column
};

class SqliteDatabase : public DatabaseBackend {
 public:
  SqliteDatabase(std::string path, std::string kind, OwnerLock lock, DatabaseMode mode)
      : path_(std::move(path)), kind_(std::move(kind)), lock_(std::move(lock)), connection_(connect(path_, mode)) {}

  // Brings the file to the newest version where the mode allows.
  Status prepare(DatabaseMode mode, const Migrations& migrations);

  Result<Rows> change(const std::string& sql, const Row& arguments) override { return run(sql, arguments); }
  Status change_each(const std::string& sql, const Rows& arguments) override;
  Result<Rows> query(const std::string& sql, const Row& arguments) override { return run(sql, arguments); }
  Result<std::vector<Rows>> query_each(const std::string& sql, const Rows& arguments) override;
  Status transaction(const std::function<Status()>& body) override { return run_inside("BEGIN IMMEDIATE", body); }
  Status snapshot(const std::function<Status()>& body) override { return run_inside("BEGIN", body); }
  std::string row_lock() const override { return ""; }
  const std::string& name() const override { return path_; }
  const std::string& backup() const override { return backup_; }

 private:
  Result<Rows> run(const std::string& sql, const Row& arguments);
  Prepared& prepared(const std::string& sql);
  [[nodiscard]] bool autocommit() const { return sqlite3_get_autocommit(connection_.getHandle()) != 0; }
  Status run_inside(const char* begin, const std::function<Status()>& body);
  // The body's and the commit's outcome.
  Status run_body(const std::function<Status()>& body);
  void roll_back();

  const std::string path_;
  const std::string kind_;
  OwnerLock lock_;  // given back after the connection has closed
  SQLite::Database connection_;
  std::string backup_;
  std::map<std::string, std::unique_ptr<Prepared>> statements_;
  bool in_transaction_ = false;
};

Status SqliteDatabase::prepare(DatabaseMode mode, const Migrations& migrations) {
  TRIMTAB_TRY(backup_, trimtab::prepare(connection_, path_, mode, migrations));
  return {};
}

Prepared& SqliteDatabase::prepared(const std::string& sql) {
  if (statements_.size() >= kMaxPrepared) statements_.clear();
  auto& statement = statements_[sql];
  if (!statement) statement = std::make_unique<Prepared>(connection_, sql);
  return *statement;
}

Result<Rows> SqliteDatabase::run(const std::string& sql, const Row& arguments) {
  // SQLite may roll a transaction back by itself (disk full); what follows must not be stored on its own then.
  if (in_transaction_ && autocommit()) return unavailable(kind_ + " " + path_ + ": the transaction was rolled back");
  try {
    Prepared& ready = prepared(sql);
    SQLite::Statement& statement = ready.statement;
    const int count = static_cast<int>(arguments.size());
    for (int i = 0; i < count; ++i) bind(statement, i + 1, arguments[static_cast<std::size_t>(i)]);
    Rows rows;
    while (statement.executeStep()) rows.push_back(ready.row());
    statement.reset();
    statement.clearBindings();
    return rows;
  } catch (const SQLite::Exception& failure) {
    Error error = sqlite_failure(failure, kind_, path_);
    statements_.erase(sql);
    return error;
  }
}

Status SqliteDatabase::change_each(const std::string& sql, const Rows& arguments) {
  TRIMTAB_ASSERT(in_transaction_, "many changes are one transaction");
  for (const Row& one : arguments) TRIMTAB_TRY_STATUS(run(sql, one));
  return {};
}

Result<std::vector<Rows>> SqliteDatabase::query_each(const std::string& sql, const Rows& arguments) {
  std::vector<Rows> answers;
  for (const Row& one : arguments) {
    TRIMTAB_TRY(Rows rows, run(sql, one));
    answers.push_back(std::move(rows));
  }
  return answers;
}

void SqliteDatabase::roll_back() {
  in_transaction_ = false;
  if (autocommit()) return;
  const bool ended = run("ROLLBACK", {}).ok() || autocommit();
  TRIMTAB_ASSERT(ended, "a rollback must end the transaction");
}

Status SqliteDatabase::run_body(const std::function<Status()>& body) {
  TRIMTAB_TRY_STATUS(body());
  TRIMTAB_TRY_STATUS(run("COMMIT", {}));
  return {};
}

Status SqliteDatabase::run_inside(const char* begin, const std::function<Status()>& body) {
  TRIMTAB_ASSERT(!in_transaction_, "transactions do not nest");
  TRIMTAB_TRY_STATUS(run(begin, {}));
  in_transaction_ = true;
  const Status status = run_body(body);
  if (!status.ok()) roll_back();
  in_transaction_ = false;
  return status;
}

}  // namespace

Result<std::unique_ptr<DatabaseBackend>> open_sqlite(const std::string& path, DatabaseMode mode,
                                                     const Migrations& migrations, bool exclusive) {
  TRIMTAB_TRY_STATUS(check_place(path, mode, migrations));
  OwnerLock lock;
  if (exclusive) {
    TRIMTAB_TRY(lock, OwnerLock::acquire(path));
  }
  try {
    auto database = std::make_unique<SqliteDatabase>(path, migrations.kind, std::move(lock), mode);
    TRIMTAB_TRY_STATUS(database->prepare(mode, migrations));
    return std::unique_ptr<DatabaseBackend>(std::move(database));
  } catch (const SQLite::Exception& failure) {
    return sqlite_failure(failure, migrations.kind, path);
  }
}

}  // namespace trimtab
