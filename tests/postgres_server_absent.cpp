// Where this program was built without libpq.

#include <iostream>

#include "postgres_server.hpp"

namespace trimtab::test {

PostgresServer* PostgresServer::shared() {
  static const bool said = static_cast<bool>(std::cerr << "skipped: built without libpq\n");
  return said ? nullptr : nullptr;
}

PostgresServer::~PostgresServer() = default;
std::string PostgresServer::new_name() {
  return "";
}
int PostgresServer::end_connections() {
  return 0;
}
void PostgresServer::drop(const std::string&) {}

}  // namespace trimtab::test
