#include "postgres_server.hpp"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "skipping.hpp"

namespace trimtab::test {

namespace {

constexpr const char* kNoServer = "no PostgreSQL server is installed (Debian: postgresql)";

struct User {
  uid_t id;
  gid_t group;
};

User server_user() {
  if (geteuid() != 0) return {geteuid(), getegid()};
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* entry = getpwnam(name)) return {entry->pw_uid, entry->pw_gid};
  }
  return {65534, 65534};
}

std::string program(const std::string& name) {
  return std::string(TRIMTAB_POSTGRESQL_PROGRAMS) + "/" + name;
}

// In memory where that is possible: what is tested is a lost connection, not a lost disk.
std::string new_directory() {
  const bool memory = access("/dev/shm", W_OK) == 0;
  std::string path = memory ? "/dev/shm/trimtab-pg-XXXXXX" : "/tmp/trimtab-pg-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot create " + path);
  const User user = server_user();
  if (geteuid() == 0 && chown(path.c_str(), user.id, user.group) != 0) throw std::runtime_error("cannot give " + path);
  return path;
}

// In the child: the command as the server's user, its output in `log`. It ends with this program, however that ends.
[[noreturn]] void become(const std::vector<std::string>& command, const std::string& log) {
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  const User user = server_user();
  if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(user.group) != 0 || setuid(user.id) != 0)) _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // Not this program's database settings.
  for (const char* variable : {"PGDATA", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE"}) unsetenv(variable);
  if (chdir("/") == 0) execv(arguments[0], arguments.data());
  _exit(127);
}

// Another for each program, so that two at a time do not meet at one port; process ids have 22 bits.
std::string address_of(pid_t process) {
  const auto byte = [process](int shift) { return (process >> shift) & 255; };
  return "127." + std::to_string(64 + byte(16)) + "." + std::to_string(byte(8)) + "." + std::to_string(byte(0));
}

int status_of(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

}  // namespace

PostgresServer* PostgresServer::shared() {
  static const std::unique_ptr<PostgresServer> server = make();
  if (server == nullptr) skip(kNoServer);
  return server.get();
}

std::unique_ptr<PostgresServer> PostgresServer::make() {
  if (access(program("initdb").c_str(), X_OK) != 0) {
    skip(kNoServer);
    return nullptr;
  }
  std::unique_ptr<PostgresServer> server(new PostgresServer(new_directory()));
  server->maker_ = getpid();
  const pid_t made = server->spawn({program("initdb"), "-D", server->directory_ + "/data", "-U", "trimtab", "-A",
                                    "trust", "-E", "UTF8", "--locale=C", "--no-sync"});
  if (status_of(made) != 0) throw std::runtime_error("initdb failed: see " + server->directory_ + "/log");
  server->write("pg_hba.conf",
                "local all keeper scram-sha-256\nlocal all all trust\n"
                "hostssl all certified 127.0.0.0/8 cert\nhost all all 127.0.0.0/8 scram-sha-256\n");
  server->start();
  return server;
}

PostgresServer::~PostgresServer() {
  if (getpid() != maker_) return;
  stop();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

pid_t PostgresServer::spawn(const std::vector<std::string>& command) const {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) become(command, directory_ + "/log");
  return child;
}

bool PostgresServer::answers() const {
  return PQping(name("public").c_str()) == PQPING_OK;
}

// In its directory, for it alone.
void PostgresServer::write(const std::string& file, const std::string& text) const {
  const std::string path = directory_ + "/data/" + file;
  std::ofstream(path) << text;
  const User user = server_user();
  const bool owned = geteuid() != 0 || chown(path.c_str(), user.id, user.group) == 0;
  if (!owned || chmod(path.c_str(), 0600) != 0) throw std::runtime_error("cannot write " + path);
}

std::string PostgresServer::listen(const ServerCertificate& own) {
  write("server.crt", own.certificate);
  write("server.key", own.key);
  write("authority.crt", own.authority);
  address_ = address_of(getpid());
  tls_ = true;
  stop();
  start();
  return address_;
}

void PostgresServer::listen_in_the_clear() {
  tls_ = false;
  stop();
  start();
}

void PostgresServer::start() {
  process_ = spawn({program("postgres"), "-D", directory_ + "/data", "-k", directory_, "-c",
                    "listen_addresses=" + address_, "-c", std::string("ssl=") + (tls_ ? "on" : "off"), "-c",
                    "ssl_ca_file=" + std::string(tls_ ? "authority.crt" : ""), "-c", "fsync=off", "-c",
                    "max_connections=60", "-c", "deadlock_timeout=50ms"});
  const timespec pause{0, 20'000'000};
  for (int i = 0; i < 1500; ++i) {
    if (answers()) return;
    if (waitpid(process_, nullptr, WNOHANG) == process_) break;
    nanosleep(&pause, nullptr);
  }
  throw std::runtime_error("PostgreSQL did not start: see " + directory_ + "/log");
}

void PostgresServer::freeze() const {
  kill(process_, SIGSTOP);
}

void PostgresServer::thaw() const {
  kill(process_, SIGCONT);
}

void PostgresServer::stop() {
  if (process_ <= 0) return;
  kill(process_, SIGINT);  // ends its connections
  (void)status_of(process_);
  process_ = 0;
}

std::string PostgresServer::name(const std::string& schema, const std::string& role,
                                 const std::string& parameters) const {
  return "postgresql://" + role + "@/postgres?host=" + directory_ + "&options=-csearch_path%3D" + schema + parameters;
}

std::string PostgresServer::schema_of(const std::string& name) {
  const std::size_t begin = name.find("%3D") + 3;
  return name.substr(begin, name.find('&', begin) - begin);
}

std::string PostgresServer::new_name() {
  const std::string schema = "test_" + std::to_string(getpid()) + "_" + std::to_string(++schemas_);
  run("CREATE SCHEMA " + schema);
  return name(schema);
}

void PostgresServer::drop(const std::string& name) {
  run("DROP SCHEMA " + schema_of(name) + " CASCADE");
}

std::vector<std::string> PostgresServer::run(const std::string& sql) {
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(name("public").c_str()), &PQfinish);
  PQsetNoticeProcessor(
      connection.get(), [](void*, const char*) {}, nullptr);
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection.get(), sql.c_str()), &PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    throw std::runtime_error(sql + ": " + PQerrorMessage(connection.get()));
  }
  std::vector<std::string> rows;
  for (int r = 0; r < PQntuples(result.get()); ++r) {
    std::string& row = rows.emplace_back();
    for (int c = 0; c < PQnfields(result.get()); ++c) {
      row += (c == 0 ? "" : "|") + std::string(PQgetvalue(result.get(), r, c));
    }
  }
  return rows;
}

int PostgresServer::end_connections() {
  const auto rows =
      run("SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
          "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
  return std::stoi(rows.at(0));
}

}  // namespace trimtab::test
