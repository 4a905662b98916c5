#pragma once

// A database in PostgreSQL, through libpq. Without libpq at build time there is postgres_absent.cpp instead, which says
// what is missing.

#include <memory>
#include <string>

#include "base/result.hpp"
#include "store/database_backend.hpp"

namespace trimtab {

[[nodiscard]] Result<std::unique_ptr<DatabaseBackend>> open_postgres(const std::string& name, DatabaseMode mode,
                                                                     const Migrations& migrations, bool exclusive);

}  // namespace trimtab
