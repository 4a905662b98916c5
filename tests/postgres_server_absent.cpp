// Where this program was built without libpq.

#include "postgres_server.hpp"
#include "skipping.hpp"

namespace trimtab::test {

PostgresServer* PostgresServer::shared() {
  skip("built without libpq");
  return nullptr;
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
