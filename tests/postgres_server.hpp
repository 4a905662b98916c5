#pragma once

// A real PostgreSQL server of a test program's own: made in a temporary directory on first use, listening on a Unix
// socket there alone, stopped and removed with the program. As another user where this one is root, whom PostgreSQL
// refuses.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace trimtab::test {

class PostgresServer {
 public:
  // The one of this program. Null, and said once, where PostgreSQL or libpq is missing.
  [[nodiscard]] static PostgresServer* shared();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // The name of a database in a new schema. `role`: a superuser unless another is named; `parameters`: more of the
  // name.
  [[nodiscard]] std::string new_name();
  [[nodiscard]] std::string name(const std::string& schema, const std::string& role = "trimtab",
                                 const std::string& parameters = "") const;
  [[nodiscard]] static std::string schema_of(const std::string& name);
  void drop(const std::string& name);

  // Statements of the test itself, each row's columns joined by '|'.
  std::vector<std::string> run(const std::string& sql);
  // Ends every other connection; returns how many there were.
  int end_connections();
  // Of the process that takes connections: they wait unanswered.
  void freeze() const;
  void thaw() const;
  void stop();
  void start();
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  explicit PostgresServer(std::string directory) : directory_(std::move(directory)) {}
  [[nodiscard]] static std::unique_ptr<PostgresServer> make();
  [[nodiscard]] pid_t spawn(const std::vector<std::string>& command) const;
  [[nodiscard]] bool answers() const;

  std::string directory_;
  pid_t maker_ = 0;
  pid_t process_ = 0;
  int schemas_ = 0;
};

}  // namespace trimtab::test
