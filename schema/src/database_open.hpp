#pragma once

// Opening, recognizing, creating and upgrading a database file. Throws SQLite::Exception, which Database catches.

#include <string>

#include <SQLiteCpp/Database.h>

#include "base/result.hpp"
#include "schema/database.hpp"

namespace trimtab {

[[nodiscard]] SQLite::Database connect(const std::string& path, DatabaseMode mode);

// Recognizes the file, then brings it to the newest version where the mode allows.
[[nodiscard]] Status prepare(SQLite::Database& connection, const std::string& path, DatabaseMode mode,
                             const Migrations& migrations);

}  // namespace trimtab
