#pragma once

// The databases of a coordinator that its settings put on a PostgreSQL server, looked at without starting one.

#include <string>
#include <vector>

#include "base/result.hpp"
#include "coordinator/settings.hpp"
#include "schema/server_inspection.hpp"

namespace trimtab::coordinator {

struct ServerDatabase {
  std::string key;  // of the setting: "cost_database" or "state_database"
  Result<ServerInspection> seen;
};

// Those that name a server; none where both are files. Blocking, as inspect_server().
[[nodiscard]] std::vector<ServerDatabase> inspect_server_databases(const Settings& settings);

}  // namespace trimtab::coordinator
