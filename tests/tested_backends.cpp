#include "tested_backends.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "postgres_server.hpp"

namespace trimtab::test {

std::ostream& operator<<(std::ostream& out, Backend backend) {
  return out << (backend == Backend::kSqlite ? "SQLite" : "PostgreSQL");
}

std::vector<Backend> backends() {
  if (PostgresServer::shared() == nullptr) return {Backend::kSqlite};
  return {Backend::kSqlite, Backend::kPostgres};
}

DatabasePlace::DatabasePlace(Backend backend) : backend_(backend) {
  // In memory where that is possible: syncing a disk is slow.
  const bool memory = access("/dev/shm", W_OK) == 0;
  directory_ = memory ? "/dev/shm/trimtab-test-XXXXXX" : "/tmp/trimtab-test-XXXXXX";
  if (mkdtemp(directory_.data()) == nullptr) throw std::runtime_error("cannot create " + directory_);
}

DatabasePlace::~DatabasePlace() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
  for (const auto& [database, name] : schemas_) PostgresServer::shared()->drop(name);
}

std::string DatabasePlace::name(const std::string& database, Backend backend) const {
  if (backend == Backend::kSqlite) return directory_ + "/" + database;
  auto& name = schemas_[database];
  if (name.empty()) name = PostgresServer::shared()->new_name();
  return name;
}

}  // namespace trimtab::test
