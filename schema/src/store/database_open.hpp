#pragma once

// Opening, recognizing, creating and upgrading a database file. Throws SQLite::Exception, which Database catches.

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include "schema/database.hpp"

namespace trimtab {

// `without_log`: whoever only reads leaves its log alone.
[[nodiscard]] SQLite::Database connect(const std::string& path, DatabaseMode mode, bool without_log = false);

// Recognizes the file, then brings it to the newest version. Who only reads gets a connection to an upgraded copy, and
// the file stays as it is. Returns the path of the copy that it made of an older file; empty where none was upgraded.
[[nodiscard]] Result<std::string> prepare(SQLite::Database& connection, const std::string& path, DatabaseMode mode,
                                          const Migrations& migrations);

// Runs the migrations from the version `from` on.
void run_steps(SQLite::Database& connection, std::int64_t from, const Migrations& migrations);

// Of one of our values; and back, of all columns of the row that a statement stands on.
void bind(SQLite::Statement& statement, int index, const Value& value);
[[nodiscard]] Row values_of(const SQLite::Statement& statement);

// By its first letter; 0 of an expression, whose statement says by itself what it makes, and of what our tables lack.
[[nodiscard]] char declared_type(const SQLite::Statement& statement, int column);
// SQLite stores a type with each value, and in a file from elsewhere that need not be the column's. Our columns hold no
// NULL but those that are read through an expression.
[[nodiscard]] bool fits(char declared, const SQLite::Column& column);

// A copy of all that the connection sees, whole and on the disk before it has its name. Replaces a file of that name.
[[nodiscard]] Status copy_to(SQLite::Database& connection, const std::string& path);

// Copies the whole log into the file. Fails where somebody reads from it.
[[nodiscard]] Status copy_log(SQLite::Database& connection, const std::string& path);

// Whether closing copies the log into the file and removes it by its name.
void copy_log_at_close(SQLite::Database& connection, bool copies);

}  // namespace trimtab
