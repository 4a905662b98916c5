#include "kept_database.hpp"

#include <sqlite3.h>

#include <utility>

#include "base/check.hpp"

namespace trimtab::fuzz {

namespace {

void require(const Status& status) {
  TRIMTAB_ASSERT(status.ok(), "a database in a directory of our own can be written");
}

std::string insertion(const std::string& table, std::size_t columns) {
  std::string places;
  for (std::size_t i = 0; i < columns; ++i) places += i == 0 ? "?" : ", ?";
  return "INSERT INTO " + table + " VALUES (" + places + ")";
}

}  // namespace

void keep_files_in_memory() {
  sqlite3_initialize();
  TRIMTAB_ASSERT(sqlite3_vfs_register(sqlite3_vfs_find("memdb"), 1) == SQLITE_OK, "SQLite has files in memory");
}

// By names, from the last: `audit_horizon` before `audit`, whose rows nobody may remove while it has a horizon.
KeptDatabase::KeptDatabase(const std::string& path, const Migrations& migrations)
    : database_(Database::open(path, DatabaseMode::kCreate, migrations).value()) {
  require(database_.execute("PRAGMA foreign_keys = OFF"));  // their tables are put back one after the other
  const auto found = database_.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name DESC");
  for (const Row& row : found.value()) {
    const std::string& name = as_text(row.at(0));
    Rows kept = database_.query("SELECT * FROM " + name).value();
    const std::size_t columns = kept.empty() ? 0 : kept.front().size();
    tables_.push_back({name, insertion(name, columns), std::move(kept)});
  }
}

void KeptDatabase::put_back() {
  require(database_.transaction([this]() -> Status {
    for (const Table& table : tables_) {
      if (!is_empty(table.name)) TRIMTAB_TRY_STATUS(database_.execute("DELETE FROM " + table.name));
    }
    for (const Table& table : tables_) {
      if (!table.kept.empty()) TRIMTAB_TRY_STATUS(database_.execute_each(table.insertion, table.kept));
    }
    return {};
  }));
}

bool KeptDatabase::is_empty(const std::string& table) const {
  return database_.query("SELECT 1 FROM " + table + " LIMIT 1").value().empty();
}

}  // namespace trimtab::fuzz
