#pragma once

// What can be told of a database's path before SQLite touches it: SQLite would create files beside a database that it
// opens, and recover one that is not ours.

#include <string>

#include "base/result.hpp"
#include "schema/database.hpp"

namespace trimtab {

// Refuses a path that cannot be opened in this mode, and a file that is not ours. Changes nothing.
[[nodiscard]] Status check_place(const std::string& path, DatabaseMode mode, const Migrations& migrations);

// The refusal of somebody else's file.
[[nodiscard]] Error foreign_file(const std::string& path, const Migrations& migrations, const std::string& found);

// A file that nobody can be writing, in a directory where SQLite cannot create its working files.
[[nodiscard]] bool is_immutable(const std::string& path);

}  // namespace trimtab
