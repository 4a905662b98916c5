#include "store/salvage.hpp"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <sqlite3.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "store/database_open.hpp"
#include "store/row_checksum.hpp"

namespace trimtab {

namespace {

constexpr std::size_t kMostText = 1024;
constexpr const char* kSetApart = "set_apart";
constexpr const char* kTables =
    "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";

std::vector<std::string> texts(SQLite::Database& connection, const std::string& sql, const std::string& argument = "") {
  SQLite::Statement statement(connection, sql);
  if (!argument.empty()) statement.bind(1, argument);
  std::vector<std::string> all;
  while (statement.executeStep()) all.push_back(statement.getColumn(0).getString());
  return all;
}

const CheckedTable* checked_of(const Migrations& migrations, const std::string& table) {
  const auto found = std::ranges::find(migrations.checked, table, &CheckedTable::name);
  return found == migrations.checked.end() ? nullptr : &*found;
}

std::string wrong_checksums(SQLite::Database& connection, const CheckedTable& table) {
  const std::string wrong = "SELECT COUNT(*) FROM " + table.name + " NOT INDEXED WHERE checksum IS NOT row_checksum(" +
                            columns_of(table) + ")";
  const std::int64_t count = connection.execAndGet(wrong).getInt64();
  if (count == 0) return "";
  return std::to_string(count) + (count == 1 ? " row" : " rows") + " of " + table.name + " without their checksum";
}

std::string value_text(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return std::to_string(*real);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "NULL" : "'" + text->substr(0, kMostText) + "'";
}

void note(SQLite::Database& connection, const std::string& place, const std::string& reason, const std::string& row) {
  SQLite::Statement insert(connection, "INSERT INTO set_apart (place, reason, row_text) VALUES (?, ?, ?)");
  insert.bind(1, place);
  insert.bind(2, valid_text(reason));
  insert.bind(3, row);
  insert.exec();
}

std::string row_text(const Row& row) {
  std::string text;
  for (const Value& value : row) text += (text.empty() ? "" : ", ") + value_text(value);
  return valid_text(text.substr(0, kMostText));
}

// Empty: its values can be read. A NULL where none may be is left to the check of the whole file.
std::string why_unreadable(const SQLite::Statement& row, const CheckedTable& table,
                           const std::vector<std::string>& may_be_null) {
  for (int i = 0; i < row.getColumnCount(); ++i) {
    if (row.getColumn(i).isNull()) {
      if (std::ranges::find(may_be_null, row.getColumnName(i)) == may_be_null.end()) return "";
      continue;
    }
    if (!fits(declared_type(row, i), row.getColumn(i))) return "a value is of another type than its column";
  }
  const Status readable = table.check(values_of(row));
  return readable.ok() ? "" : readable.error().message;
}

// With why.
std::vector<std::pair<Row, std::string>> unreadable_rows(SQLite::Database& connection, const CheckedTable& table) {
  std::vector<std::pair<Row, std::string>> found;
  const auto may_be_null =
      texts(connection, "SELECT name FROM pragma_table_xinfo(?) WHERE \"notnull\" = 0", table.name);
  SQLite::Statement rows(connection, "SELECT " + columns_of(table) + " FROM " + table.name);
  while (rows.executeStep()) {
    if (std::string why = why_unreadable(rows, table, may_be_null); !why.empty())
      found.emplace_back(values_of(rows), std::move(why));
  }
  return found;
}

class TableCopy {
 public:
  TableCopy(SQLite::Database& from, SQLite::Database& to, const Migrations& migrations, std::string table)
      : from_(from),
        to_(to),
        table_(std::move(table)),
        checked_(checked_of(migrations, table_)),
        columns_(texts(to, "SELECT name FROM pragma_table_xinfo(?) ORDER BY cid", table_)),
        has_key_(!texts(to, "SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0", table_).empty()),
        insert_(to, "INSERT OR IGNORE INTO " + table_ + " (" + joined(columns_) + ") VALUES (" +
                        joined(std::vector<std::string>(columns_.size(), "?")) + ")") {}

  // From the front as far as it goes, then from the back: a page that cannot be read hides none but its own rows.
  void run() {
    // What the steps have put there is in the place of what the file has.
    if (table_ != kSetApart) to_.exec("DELETE FROM " + table_);
    std::string failure = read(false);
    if (failure.empty()) return;
    note("", failure);
    if (has_key_) (void)read(true);
  }

 private:
  // What ended it before the last row.
  std::string read(bool backwards) {
    try {
      from_.exec(backwards ? "PRAGMA reverse_unordered_selects = ON" : "PRAGMA reverse_unordered_selects = OFF");
      SQLite::Statement rows(from_, "SELECT " + joined(columns_) + " FROM " + table_ + " NOT INDEXED");
      while (rows.executeStep()) take(values_of(rows));
      return "";
    } catch (const SQLite::Exception& failure) {
      return failure.what();
    }
  }

  void take(const Row& row) {
    if (!is_whole(row)) return note(row_text(row), "its checksum is wrong");
    int index = 0;
    for (const Value& value : row) bind(insert_, ++index, value);
    try {
      insert_.exec();
    } catch (const SQLite::Exception& failure) {
      if ((failure.getErrorCode() & 0xff) != SQLITE_CONSTRAINT) throw Unwritable{failure};
      note(row_text(row), failure.what());
    }
    insert_.reset();
  }

  [[nodiscard]] bool is_whole(const Row& row) const {
    if (checked_ == nullptr) return true;
    Row values;
    for (const std::string& column : checked_->columns) values.push_back(row[place_of(column)]);
    return row[place_of("checksum")] == Value(row_checksum(values));
  }

  [[nodiscard]] std::size_t place_of(const std::string& column) const {
    return static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
  }

  // A row that cannot be read from the front is found again from the back.
  void note(const std::string& row, const std::string& reason) {
    if (!row.empty() && std::ranges::find(noted_, row) != noted_.end()) return;
    noted_.push_back(row);
    trimtab::note(to_, table_, reason, row);
  }

 public:
  // Of `to`, and not of the damaged file.
  struct Unwritable {
    SQLite::Exception failure;
  };

 private:
  SQLite::Database& from_;
  SQLite::Database& to_;
  std::string table_;
  const CheckedTable* checked_;
  std::vector<std::string> columns_;
  bool has_key_;
  SQLite::Statement insert_;
  std::vector<std::string> noted_;
};

// Numbers that were given out are not given out again.
void copy_sequences(SQLite::Database& from, SQLite::Database& to) {
  if (texts(to, "SELECT name FROM sqlite_master WHERE name = 'sqlite_sequence'").empty()) return;
  try {
    SQLite::Statement rows(from, "SELECT name, seq FROM sqlite_sequence");
    while (rows.executeStep()) {
      SQLite::Statement drop(to, "DELETE FROM sqlite_sequence WHERE name = ?1 AND seq < ?2");
      drop.bind(1, rows.getColumn(0).getString());
      drop.bind(2, rows.getColumn(1).getInt64());
      drop.exec();
      SQLite::Statement put(to,
                            "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM "
                            "sqlite_sequence WHERE name = ?1)");
      put.bind(1, rows.getColumn(0).getString());
      put.bind(2, rows.getColumn(1).getInt64());
      put.exec();
    }
  } catch (const SQLite::Exception&) {
    return;  // the rows that are there count on from the highest of them
  }
}

}  // namespace

std::string find_damage(SQLite::Database& connection, const Migrations& migrations, bool thorough) {
  try {
    const std::string pages =
        connection.execAndGet(thorough ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)").getString();
    if (pages != "ok") return valid_text(pages.substr(0, kMostText));
    for (const CheckedTable& table : migrations.checked) {
      std::string wrong = wrong_checksums(connection, table);
      if (!wrong.empty()) return wrong;
    }
    return "";
  } catch (const SQLite::Exception& failure) {
    const int code = failure.getErrorCode() & 0xff;
    if (code != SQLITE_CORRUPT && code != SQLITE_NOTADB) throw;
    return failure.what();
  }
}

void salvage(SQLite::Database& from, SQLite::Database& to, const Migrations& migrations, const std::string& damage) {
  to.exec("PRAGMA foreign_keys = OFF");
  SQLite::Transaction writing(to, SQLite::TransactionBehavior::EXCLUSIVE);
  to.exec("PRAGMA application_id = " + std::to_string(static_cast<std::int32_t>(migrations.application_id)));
  run_steps(to, 0, migrations);
  try {
    for (const std::string& table : texts(to, kTables)) TableCopy(from, to, migrations, table).run();
  } catch (const TableCopy::Unwritable& unwritable) {
    throw unwritable.failure;
  }
  copy_sequences(from, to);
  note_damage(to, migrations, damage);
  writing.commit();
}

void note_damage(SQLite::Database& connection, const Migrations& migrations, const std::string& damage) {
  note(connection, "", damage, "");
  for (const std::string& statement : migrations.after_salvage) connection.exec(statement);
}

void set_apart_unreadable(SQLite::Database& connection, const Migrations& migrations) {
  std::size_t count = 0;
  for (const CheckedTable& table : migrations.checked) {
    if (!table.check) continue;
    for (const auto& [row, reason] : unreadable_rows(connection, table)) {
      note(connection, table.name, reason, row_text(row));
      SQLite::Statement removal(connection, "DELETE FROM " + table.name + " WHERE (" + columns_of(table) + ") IS (" +
                                                joined(std::vector<std::string>(row.size(), "?")) + ")");
      for (std::size_t i = 0; i < row.size(); ++i) bind(removal, static_cast<int>(i) + 1, row[i]);
      removal.exec();
      ++count;
    }
  }
  if (count == 0) return;
  note_damage(connection, migrations, "rows of the older version that meant nothing: " + std::to_string(count));
}

std::uint64_t count_set_apart(SQLite::Database& connection) {
  return static_cast<std::uint64_t>(connection.execAndGet(std::string("SELECT COUNT(*) FROM ") + kSetApart).getInt64());
}

}  // namespace trimtab
