#include "store/table_shapes.hpp"

#include <map>

#include <SQLiteCpp/Statement.h>

#include "documents/json_document.hpp"

namespace trimtab {

namespace {

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

}  // namespace

Status check_tables(SQLite::Database& connection, const std::string& path, const Migrations& migrations,
                    std::int64_t version) {
  // It repeats what stands in a file that somebody else wrote.
  const std::string different =
      valid_text(difference(shapes_after(migrations, version), shapes_of(connection)).substr(0, kMaxSaid));
  if (different.empty()) return {};
  return bad_input(path + " says that it is a " + migrations.kind + " of version " + std::to_string(version) +
                   ", but " + different + "; nothing was changed. Take a copy of it that is whole");
}

}  // namespace trimtab
