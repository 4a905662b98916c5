#pragma once

// A real PostgreSQL server of a test program's own: made in a temporary directory, listening on a Unix socket there
// alone unless it is told otherwise, stopped and removed with the program. As another user where this one is root, whom
// PostgreSQL refuses.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace trimtab::test {

// PEM.
struct ServerCertificate {
  std::string certificate;
  std::string key;
  std::string authority;  // whose clients' certificates are taken
};

class PostgresServer {
 public:
  // The one of this program. Null, and said once, where PostgreSQL or libpq is missing.
  [[nodiscard]] static PostgresServer* shared();
  // Another one, for a test that changes how it can be reached; null where shared() is.
  [[nodiscard]] static std::unique_ptr<PostgresServer> make();
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
  // Starts it again, now also on an address of this machine, which is returned, with TLS. The role "certified" shows
  // its certificate there, every other its password.
  std::string listen(const ServerCertificate& own);
  // Starts it again on the same address, without TLS.
  void listen_in_the_clear();

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
  [[nodiscard]] pid_t spawn(const std::vector<std::string>& command) const;
  [[nodiscard]] bool answers() const;
  void write(const std::string& file, const std::string& text) const;

  std::string directory_;
  std::string address_;  // beside the socket
  bool tls_ = false;
  pid_t maker_ = 0;
  pid_t process_ = 0;
  int schemas_ = 0;
};

}  // namespace trimtab::test
