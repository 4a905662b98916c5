#pragma once

// A database in an SQLite file: WAL mode, an application id, one writer at a time.

#include <memory>
#include <string>

#include "base/result.hpp"
#include "store/database_backend.hpp"

namespace trimtab {

[[nodiscard]] Result<std::unique_ptr<DatabaseBackend>> open_sqlite(const std::string& path, DatabaseMode mode,
                                                                   const Migrations& migrations, bool exclusive);

}  // namespace trimtab
