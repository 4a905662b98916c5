#include "postgres_database.hpp"
#include "postgres_name.hpp"

namespace trimtab {

Result<std::unique_ptr<DatabaseBackend>> open_postgres(const std::string& name, DatabaseMode,
                                                       const Migrations& migrations, bool) {
  return unavailable("the " + std::string(migrations.kind) + " " + without_secrets(name) +
                     " needs libpq, but this program was built without it. Build it where libpq is found (Debian: "
                     "libpq-dev; the option TRIMTAB_POSTGRESQL), or give a file's path");
}

}  // namespace trimtab
