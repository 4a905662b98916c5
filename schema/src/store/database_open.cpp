#include "store/database_open.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <sqlite3.h>

#include "documents/json_document.hpp"
#include "schema/durable_file.hpp"
#include "store/database_backend.hpp"
#include "store/database_place.hpp"
#include "store/row_checksum.hpp"
#include "store/salvage.hpp"

namespace trimtab {

namespace {

constexpr int kBusyTimeoutMs = 5000;

std::int64_t number(SQLite::Database& connection, const char* sql) {
  return connection.execAndGet(sql).getInt64();
}

std::int64_t version_of(SQLite::Database& connection) {
  return number(connection, "PRAGMA user_version");
}

// A file that was never written, or whose creation was cut off before it counted.
bool is_new(SQLite::Database& connection) {
  return number(connection, "SELECT count(*) FROM sqlite_master") == 0 && version_of(connection) == 0 &&
         number(connection, "PRAGMA application_id") == 0;
}

// file:PATH?immutable=1, with the characters escaped that mean something in a URI.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char character : std::filesystem::absolute(path).string()) {
    const bool special = character == '%' || character == '?' || character == '#';
    uri += special ? (character == '%' ? "%25" : character == '?' ? "%3f" : "%23") : std::string(1, character);
  }
  return uri + "?immutable=1";
}

// In one transaction of the rollback journal, application id included: a kill leaves an empty file, never half of ours.
void create(SQLite::Database& connection, const Migrations& migrations) {
  SQLite::Transaction transaction(connection, SQLite::TransactionBehavior::EXCLUSIVE);
  if (is_new(connection)) {
    connection.exec("PRAGMA application_id = " + std::to_string(static_cast<std::int32_t>(migrations.application_id)));
    run_steps(connection, 0, migrations);
  }
  transaction.commit();
}

// On the disk before the upgrade is: else a power cut could leave the new file and no copy of the old one.
Result<std::string> back_up(SQLite::Database& connection, const std::string& path, std::int64_t version) {
  const std::string backup = path + ".v" + std::to_string(version) + ".backup";
  const Status copied = copy_to(connection, backup);
  if (!copied.ok()) return wrap("the database was not upgraded", copied.error());
  return backup;
}

void check(int result, const char* failed) {
  if (result == SQLITE_OK) return;
  throw SQLite::Exception(std::string(failed) + ": " + sqlite3_errstr(result), result & 0xff);
}

sqlite3_int64 size_of(sqlite3_file* file, const char* failed) {
  sqlite3_int64 size = 0;
  if (file != nullptr && file->pMethods != nullptr) check(file->pMethods->xFileSize(file, &size), failed);
  return size;
}

// A creation that fails cuts the file off again, which may not have reached the disk. From the next one on SQLite
// counts an empty file as new, and removes its journal: what the disk holds must be empty by then.
void secure_empty(SQLite::Database& connection) {
  constexpr const char* kFailed = "the empty file does not reach the disk";
  sqlite3_file* file = nullptr;
  check(sqlite3_file_control(connection.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file), kFailed);
  if (size_of(file, kFailed) == 0) check(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL), kFailed);
}

sqlite3_file* log_of(SQLite::Database& connection, const char* failed) {
  sqlite3_file* log = nullptr;
  check(sqlite3_file_control(connection.getHandle(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log), failed);
  return log;
}

// Who only looks, or is refused, removes the files that it had to make when it is the last to close, but never copies a
// log that it found: that this has reached the disk only secure_log() makes certain.
void leave_found_log(SQLite::Database& connection) {
  constexpr const char* kFailed = "its log could not be looked at";
  if (size_of(log_of(connection, kFailed), kFailed) > 0) copy_log_at_close(connection, false);
}

// Transactions of a process that was killed are read from its log whether they had reached the disk or not, and a sync
// that has failed leaves pages behind that no later one writes: the system counts them as written. Before anybody is
// told of such a transaction its log is written once more, as it is, and synced. Nobody else writes meanwhile. Where
// that fails, closing must not copy the log into the file: a power cut in its midst would leave half, and no log.
void secure_log(SQLite::Database& connection) {
  constexpr const char* kFailed = "its log could not be written again";
  copy_log_at_close(connection, false);
  const SQLite::Transaction writing(connection, SQLite::TransactionBehavior::IMMEDIATE);
  sqlite3_file* const log = log_of(connection, kFailed);
  const sqlite3_int64 size = size_of(log, kFailed);
  std::vector<char> part(std::size_t{64} << 10);
  for (sqlite3_int64 begin = 0; begin < size; begin += static_cast<sqlite3_int64>(part.size())) {
    const auto length = static_cast<int>(std::min(size - begin, static_cast<sqlite3_int64>(part.size())));
    check(log->pMethods->xRead(log, part.data(), length, begin), kFailed);
    check(log->pMethods->xWrite(log, part.data(), length, begin), kFailed);
  }
  if (size > 0) check(log->pMethods->xSync(log, SQLITE_SYNC_NORMAL), kFailed);
  copy_log_at_close(connection, true);
}

// Before there were checksums a value that nobody can read was in use like any other: the steps give it one, too.
void upgrade_tables(SQLite::Database& connection, std::int64_t from, const Migrations& migrations) {
  const bool has_checksums = number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'set_apart'") > 0;
  run_steps(connection, from, migrations);
  if (!has_checksums) set_apart_unreadable(connection, migrations);
}

Result<std::string> upgrade(SQLite::Database& connection, const std::string& path, const Migrations& migrations) {
  TRIMTAB_TRY(std::string backup, back_up(connection, path, version_of(connection)));
  SQLite::Transaction transaction(connection, SQLite::TransactionBehavior::IMMEDIATE);
  const std::int64_t from = version_of(connection);  // another process may have upgraded since
  try {
    upgrade_tables(connection, from, migrations);
    transaction.commit();
  } catch (const SQLite::Exception& failure) {
    return unavailable("cannot upgrade the " + std::string(migrations.kind) + " " + path + " from version " +
                       std::to_string(from) + " to " + std::to_string(migrations.steps.size()) + ": " + failure.what() +
                       "; it is unchanged, and a copy of it is " + backup);
  }
  return backup;
}

// Whether a file's tables are those that our migrations make. A file from elsewhere can carry our application id and
// version and yet have other columns, or triggers that would run when we write.
struct Shapes {
  std::map<std::string, std::string> columns;   // by table: as CREATE TABLE would say them
  std::map<std::string, std::string> triggers;  // by name: their text
};

constexpr std::size_t kMaxSaid = 1000;
// A view or a virtual table has no root page of its own.
constexpr const char* kTables =
    "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
constexpr const char* kTriggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'";
constexpr const char* kColumns =
    "SELECT name || ' ' || type || CASE \"notnull\" WHEN 0 THEN '' ELSE ' NOT NULL' END || "
    "COALESCE(' DEFAULT ' || dflt_value, '') || CASE pk WHEN 0 THEN '' ELSE ' KEY ' || pk END || "
    "CASE hidden WHEN 0 THEN '' ELSE ' GENERATED' END FROM pragma_table_xinfo(?) ORDER BY cid";

std::string columns_of(SQLite::Database& connection, const std::string& table) {
  SQLite::Statement statement(connection, kColumns);
  statement.bind(1, table);
  std::string columns;
  while (statement.executeStep()) columns += (columns.empty() ? "" : ", ") + statement.getColumn(0).getString();
  return columns;
}

Shapes shapes_of(SQLite::Database& connection) {
  Shapes shapes;
  SQLite::Statement tables(connection, kTables);
  while (tables.executeStep()) {
    const std::string table = tables.getColumn(0).getString();
    shapes.columns[table] = columns_of(connection, table);
  }
  SQLite::Statement triggers(connection, kTriggers);
  while (triggers.executeStep()) shapes.triggers[triggers.getColumn(0).getString()] = triggers.getColumn(1).getString();
  return shapes;
}

Shapes shapes_after(const Migrations& migrations, std::int64_t version) {
  SQLite::Database connection(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  add_row_checksum(connection);
  for (std::size_t i = 0; i < static_cast<std::size_t>(version); ++i) connection.exec(migrations.steps[i]);
  return shapes_of(connection);
}

// What is different, or "".
std::string difference(const Shapes& wanted, const Shapes& found) {
  for (const auto& [table, columns] : wanted.columns) {
    const auto there = found.columns.find(table);
    if (there == found.columns.end()) return "it has no table " + table;
    if (there->second != columns) {
      return "its table " + table + " has the columns (" + there->second + "), not (" + columns + ")";
    }
  }
  for (const auto& [name, text] : wanted.triggers) {
    if (!found.triggers.contains(name)) return "it has no trigger " + name;
  }
  for (const auto& [name, text] : found.triggers) {
    const auto ours = wanted.triggers.find(name);
    if (ours == wanted.triggers.end() || ours->second != text) return "its trigger " + name + " is not ours";
  }
  return "";
}

// Refuses a database whose tables are not what the first `version` steps make: by columns (name, type, default, key)
// and triggers. Tables and indexes beside ours are tolerated.
Status check_tables(SQLite::Database& connection, const std::string& path, const Migrations& migrations,
                    std::int64_t version) {
  // It repeats what stands in a file that somebody else wrote.
  const std::string different =
      valid_text(difference(shapes_after(migrations, version), shapes_of(connection)).substr(0, kMaxSaid));
  if (different.empty()) return {};
  return bad_input(path + " says that it is a " + migrations.kind + " of version " + std::to_string(version) +
                   ", but " + different + "; nothing was changed. Take a copy of it that is whole");
}

Status check_version(SQLite::Database& connection, const std::string& path, const Migrations& migrations) {
  const std::int64_t found = version_of(connection);
  const auto known = static_cast<std::int64_t>(migrations.steps.size());
  if (found < 1) return foreign_file(path, migrations, "its version is " + std::to_string(found));
  return found <= known ? Status() : other_version(path, migrations.kind, found, known);
}

Status recognize(SQLite::Database& connection, const std::string& path, DatabaseMode mode,
                 const Migrations& migrations) {
  if (is_new(connection)) {
    if (mode != DatabaseMode::kCreate) return foreign_file(path, migrations, "the database is empty");
    create(connection, migrations);
  }
  const SQLite::Transaction reading(connection);  // another process may be upgrading it
  const auto id = static_cast<std::uint32_t>(number(connection, "PRAGMA application_id"));
  if (id != migrations.application_id) {
    return foreign_file(path, migrations, "the SQLite file belongs to another application");
  }
  TRIMTAB_TRY_STATUS(check_version(connection, path, migrations));
  return check_tables(connection, path, migrations, version_of(connection));
}

// Who only reads an older file reads an upgraded copy of it, which is gone once that is closed.
Status read_copy(SQLite::Database& connection, const std::string& path, const Migrations& migrations) {
  SQLite::Database copy("", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  check(SQLite::Backup(copy, connection).executeStep() == SQLITE_DONE ? SQLITE_OK : SQLITE_BUSY, "it is not copied");
  copy.exec("PRAGMA trusted_schema = OFF");
  add_row_checksum(copy);
  TRIMTAB_TRY_STATUS(recognize(copy, path, DatabaseMode::kReadOnly, migrations));  // it may be another one by now
  upgrade_tables(copy, version_of(copy), migrations);
  copy.exec("PRAGMA query_only = ON");
  connection = std::move(copy);
  return {};
}

}  // namespace

void run_steps(SQLite::Database& connection, std::int64_t from, const Migrations& migrations) {
  for (std::size_t i = static_cast<std::size_t>(from); i < migrations.steps.size(); ++i) {
    connection.exec(migrations.steps[i]);
  }
  connection.exec("PRAGMA user_version = " + std::to_string(migrations.steps.size()));
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

Row values_of(const SQLite::Statement& statement) {
  const auto value_of = [](const SQLite::Column& column) -> Value {
    if (column.isInteger()) return column.getInt64();
    if (column.isFloat()) return column.getDouble();
    if (column.isNull()) return std::monostate{};
    return column.getString();
  };
  Row row;
  for (int i = 0; i < statement.getColumnCount(); ++i) row.push_back(value_of(statement.getColumn(i)));
  return row;
}

char declared_type(const SQLite::Statement& statement, int column) {
  try {
    const char first = statement.getColumnDeclaredType(column)[0];
    return first == 'I' || first == 'R' || first == 'T' ? first : '\0';
  } catch (const SQLite::Exception&) {
    return '\0';
  }
}

bool fits(char declared, const SQLite::Column& column) {
  if (declared == 'I') return column.isInteger();
  if (declared == 'R') return column.isFloat() || column.isInteger();
  return declared != 'T' || column.isText() || column.isBlob();
}

void copy_log_at_close(SQLite::Database& connection, bool copies) {
  check(sqlite3_db_config(connection.getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, copies ? 0 : 1, nullptr),
        "how its log is closed could not be set");
}

Status copy_to(SQLite::Database& connection, const std::string& path) {
  const std::string unfinished = path + ".tmp";
  std::remove(unfinished.c_str());
  SQLite::Statement copy(connection, "VACUUM INTO ?");
  copy.bind(1, unfinished);
  copy.exec();
  const std::string directory = std::filesystem::absolute(path).parent_path().string();
  if (reaches_disk(unfinished) && std::rename(unfinished.c_str(), path.c_str()) == 0 && reaches_disk(directory)) {
    return {};
  }
  return unavailable("cannot write the copy " + path + ": " + std::strerror(errno) +
                     ". Check the disk and its free space, then try again");
}

Status copy_log(SQLite::Database& connection, const std::string& path) {
  SQLite::Statement copy(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
  const bool whole = copy.executeStep() && copy.getColumn(0).getInt() == 0;
  if (whole) return {};
  return unavailable("the log of " + path + " cannot be copied into it while another program reads from it");
}

namespace {

SQLite::Database connect_bare(const std::string& path, DatabaseMode mode, bool without_log) {
  if (mode == DatabaseMode::kReadOnly && (without_log || is_immutable(path))) {
    return {immutable_uri(path), SQLite::OPEN_READONLY | SQLite::OPEN_URI, kBusyTimeoutMs};
  }
  // A connection that may only read leaves the -wal and -shm files behind that it has to make. So readers may write as
  // far as the file's permissions go, and prepare() forbids them to: the last to close tidies up what it made.
  const int flags =
      mode == DatabaseMode::kCreate ? SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE : SQLite::OPEN_READWRITE;
  return {path, flags, kBusyTimeoutMs};
}

}  // namespace

SQLite::Database connect(const std::string& path, DatabaseMode mode, bool without_log) {
  SQLite::Database connection = connect_bare(path, mode, without_log);
  add_row_checksum(connection);
  return connection;
}

Result<std::string> prepare(SQLite::Database& connection, const std::string& path, DatabaseMode mode,
                            const Migrations& migrations) {
  connection.exec("PRAGMA trusted_schema = OFF");  // what the file's own schema calls must be harmless
  if (mode == DatabaseMode::kReadOnly) connection.exec("PRAGMA query_only = ON");
  if (mode != DatabaseMode::kReadOnly) secure_empty(connection);
  const Status ours = recognize(connection, path, mode, migrations);
  leave_found_log(connection);
  TRIMTAB_TRY_STATUS(ours);
  const bool old = version_of(connection) < static_cast<std::int64_t>(migrations.steps.size());
  if (mode == DatabaseMode::kReadOnly) {
    if (old) TRIMTAB_TRY_STATUS(read_copy(connection, path, migrations));
    return std::string();
  }
  connection.exec("PRAGMA journal_mode = WAL");
  // Each commit reaches the disk before it is acknowledged: what we confirm to a peer survives a power cut.
  connection.exec("PRAGMA synchronous = FULL");
  secure_log(connection);
  std::string backup;
  if (old) {
    TRIMTAB_TRY(backup, upgrade(connection, path, migrations));
  }
  // Migrations may rebuild tables, which the check of references would hinder.
  connection.exec("PRAGMA foreign_keys = ON");
  return backup;
}

}  // namespace trimtab
