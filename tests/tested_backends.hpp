#pragma once

// Where a test's databases are: in files of a temporary directory, or in schemas of a PostgreSQL server. The same tests
// run on both: DatabasePlace place(GENERATE(from_range(backends()))).

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace trimtab::test {

enum class Backend { kSqlite, kPostgres };
std::ostream& operator<<(std::ostream& out, Backend backend);

// Those that there are on this machine; SQLite always.
[[nodiscard]] std::vector<Backend> backends();

class DatabasePlace {
 public:
  explicit DatabasePlace(Backend backend);
  ~DatabasePlace();
  DatabasePlace(const DatabasePlace&) = delete;
  DatabasePlace& operator=(const DatabasePlace&) = delete;

  // The name of this place's database that is called so: the same for the same.
  [[nodiscard]] std::string name(const std::string& database) const { return name(database, backend_); }
  [[nodiscard]] std::string name(const std::string& database, Backend backend) const;
  [[nodiscard]] Backend backend() const { return backend_; }

 private:
  Backend backend_;
  std::string directory_;
  mutable std::map<std::string, std::string> schemas_;  // to names
};

}  // namespace trimtab::test
