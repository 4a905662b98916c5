#include "coordinator/server_databases.hpp"

#include "schema/database.hpp"
#include "state_store.hpp"

namespace trimtab::coordinator {

std::vector<ServerDatabase> inspect_server_databases(const Settings& settings) {
  std::vector<ServerDatabase> databases;
  if (names_server(settings.cost_database)) {
    databases.push_back({"cost_database", inspect_cost_server(settings.cost_database)});
  }
  if (names_server(settings.state_database)) {
    databases.push_back({"state_database", inspect_server(settings.state_database, state_migrations(), true)});
  }
  return databases;
}

}  // namespace trimtab::coordinator
