#include "schema/database.hpp"

#include <map>
#include <utility>

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include "base/check.hpp"
#include "database_open.hpp"
#include "database_place.hpp"
#include "owner_lock.hpp"
#include "sqlite_failure.hpp"

namespace trimtab {

namespace {

// Statement texts come from code, not from data; the bound is for callers who build them all the same.
constexpr std::size_t kMaxPrepared = 128;

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

Row row_of(SQLite::Statement& statement) {
  Row row;
  for (int i = 0; i < statement.getColumnCount(); ++i) row.push_back(value_of(statement.getColumn(i)));
  return row;
}

}  // namespace

struct Database::Implementation {
  Implementation(std::string file, std::string what, OwnerLock owner, DatabaseMode mode)
      : path(std::move(file)), kind(std::move(what)), lock(std::move(owner)), connection(connect(path, mode)) {}

  SQLite::Statement& prepared(const std::string& sql) {
    if (statements.size() >= kMaxPrepared) statements.clear();
    auto& statement = statements[sql];
    if (!statement) statement = std::make_unique<SQLite::Statement>(connection, sql);
    return *statement;
  }

  [[nodiscard]] bool autocommit() const { return sqlite3_get_autocommit(connection.getHandle()) != 0; }

  // Runs the statement; gives every row to `visit`.
  Status run(const std::string& sql, const std::vector<Value>& arguments,
             const std::function<void(SQLite::Statement&)>& visit);
  Status begin();
  Status commit();
  void roll_back();
  // The body's and the commit's outcome.
  Status run_body(const std::function<Status()>& body);

  const std::string path;
  const std::string kind;
  OwnerLock lock;  // given back after the connection has closed
  SQLite::Database connection;
  std::map<std::string, std::unique_ptr<SQLite::Statement>> statements;
  bool in_transaction = false;
};

Status Database::Implementation::run(const std::string& sql, const std::vector<Value>& arguments,
                                     const std::function<void(SQLite::Statement&)>& visit) {
  // SQLite may roll a transaction back by itself (disk full); what follows must not be stored on its own then.
  if (in_transaction && autocommit()) return unavailable(kind + " " + path + ": the transaction was rolled back");
  try {
    SQLite::Statement& statement = prepared(sql);
    const int count = static_cast<int>(arguments.size());
    for (int i = 0; i < count; ++i) bind(statement, i + 1, arguments[static_cast<std::size_t>(i)]);
    while (statement.executeStep()) visit(statement);
    statement.reset();
    statement.clearBindings();
    return {};
  } catch (const SQLite::Exception& failure) {
    Error error = sqlite_failure(failure, kind, path);
    statements.erase(sql);
    return error;
  }
}

Status Database::Implementation::begin() {
  return run("BEGIN IMMEDIATE", {}, [](SQLite::Statement&) {});
}

Status Database::Implementation::commit() {
  return run("COMMIT", {}, [](SQLite::Statement&) {});
}

void Database::Implementation::roll_back() {
  in_transaction = false;
  if (autocommit()) return;
  const Status status = run("ROLLBACK", {}, [](SQLite::Statement&) {});
  TRIMTAB_ASSERT(status.ok() || autocommit(), "a rollback must end the transaction");
}

Status Database::Implementation::run_body(const std::function<Status()>& body) {
  TRIMTAB_TRY_STATUS(body());
  return commit();
}

Database::Database(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::string& path, DatabaseMode mode, const Migrations& migrations,
                                bool exclusive) {
  TRIMTAB_ASSERT(migrations.application_id != 0 && !migrations.steps.empty(), "a kind of file needs an id and tables");
  TRIMTAB_TRY_STATUS(check_place(path, mode, migrations));
  OwnerLock lock;
  if (exclusive) {
    TRIMTAB_TRY(lock, OwnerLock::acquire(path));
  }
  try {
    auto implementation = std::make_unique<Implementation>(path, migrations.kind, std::move(lock), mode);
    TRIMTAB_TRY_STATUS(prepare(implementation->connection, path, mode, migrations));
    return Database(std::move(implementation));
  } catch (const SQLite::Exception& failure) {
    return sqlite_failure(failure, migrations.kind, path);
  }
}

Status Database::execute(const std::string& sql, const std::vector<Value>& arguments) {
  return implementation_->run(sql, arguments, [](SQLite::Statement&) {});
}

Result<std::vector<Row>> Database::query(const std::string& sql, const std::vector<Value>& arguments) const {
  std::vector<Row> rows;
  TRIMTAB_TRY_STATUS(
      implementation_->run(sql, arguments, [&](SQLite::Statement& statement) { rows.push_back(row_of(statement)); }));
  return rows;
}

Status Database::transaction(const std::function<Status()>& body) {
  TRIMTAB_ASSERT(!implementation_->in_transaction, "transactions do not nest");
  TRIMTAB_TRY_STATUS(implementation_->begin());
  implementation_->in_transaction = true;
  const Status status = implementation_->run_body(body);
  if (!status.ok()) implementation_->roll_back();
  implementation_->in_transaction = false;
  return status;
}

std::int64_t Database::last_insert_id() const {
  return implementation_->connection.getLastInsertRowid();
}

std::int64_t Database::changes() const {
  return implementation_->connection.getChanges();
}

const std::string& Database::path() const {
  return implementation_->path;
}

std::int64_t as_integer(const Value& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  TRIMTAB_ASSERT(integer != nullptr, "the column holds an integer");
  return *integer;
}

double as_real(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  TRIMTAB_ASSERT(real != nullptr, "the column holds a number");
  return *real;
}

const std::string& as_text(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  TRIMTAB_ASSERT(text != nullptr, "the column holds a text");
  return *text;
}

}  // namespace trimtab
