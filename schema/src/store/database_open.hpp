#pragma once

// Opening, recognizing, creating and upgrading a database file. Throws SQLite::Exception, which Database catches.

#include <SQLiteCpp/Database.h>

#include "schema/database.hpp"

namespace trimtab {

[[nodiscard]] SQLite::Database connect(const std::string& path, DatabaseMode mode);

// Recognizes the file, then brings it to the newest version where the mode allows. Returns the path of the copy that it
// made of an older one; empty where nothing was upgraded.
[[nodiscard]] Result<std::string> prepare(SQLite::Database& connection, const std::string& path, DatabaseMode mode,
                                          const Migrations& migrations);

}  // namespace trimtab
