#include "schema/server_inspection.hpp"
#include "store/database_backend.hpp"

namespace trimtab {

namespace {

Error absent(const std::string& name, const Migrations& migrations) {
  return unavailable("the " + std::string(migrations.kind) + " " + without_secrets(name) +
                     " needs libpq, but this program was built without it. Build it where libpq is found (Debian: "
                     "libpq-dev; the option TRIMTAB_POSTGRESQL), or give a file's path");
}

}  // namespace

Result<std::unique_ptr<DatabaseBackend>> open_postgres(const std::string& name, DatabaseMode,
                                                       const Migrations& migrations, bool) {
  return absent(name, migrations);
}

Result<ServerInspection> inspect_server(const std::string& name, const Migrations& migrations, bool) {
  return absent(name, migrations);
}

}  // namespace trimtab
