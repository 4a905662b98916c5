#pragma once

// Whether a file's tables are those that our migrations make. A file from elsewhere can carry our application id and
// version and yet have other columns, or triggers that would run when we write.

#include <cstdint>
#include <string>

#include <SQLiteCpp/Database.h>

#include "base/result.hpp"
#include "schema/database.hpp"

namespace trimtab {

// Refuses a database whose tables are not what the first `version` steps make: by columns (name, type, default, key)
// and triggers. Tables and indexes beside ours are tolerated. Throws SQLite::Exception. Changes nothing.
[[nodiscard]] Status check_tables(SQLite::Database& connection, const std::string& path, const Migrations& migrations,
                                  std::int64_t version);

}  // namespace trimtab
