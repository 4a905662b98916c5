// Costs and state on a PostgreSQL server of another machine: encrypted, with a server that shows who it is.

#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "../../net/test_authority.hpp"
#include "../fake_agent.hpp"
#include "../kept_log.hpp"
#include "base/clock.hpp"
#include "coordinator/daemon.hpp"
#include "postgres_server.hpp"
#include "schema/cost.hpp"
#include "schema/cost_database.hpp"
#include "state_store.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using net::CertificateKind;

namespace {

constexpr const char* kPassword = "opensesame";

std::string key(std::uint64_t batch) {
  CostKey one;
  one.kind = CostKind::kRange;
  one.subject = "batch" + std::to_string(batch);
  return to_json(one);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A server whose certificate says that it is db.lab; the role "keeper" has a password, "certified" a certificate.
struct Lab {
  net::TemporaryDirectory files;
  net::TestAuthority authority{files, "ca"};
  std::unique_ptr<test::PostgresServer> server = test::PostgresServer::make();
  std::string address;

  Lab() {
    if (!server) return;
    std::ofstream(files / "pgpass") << "*:*:*:keeper:" << kPassword << "\n";
    std::filesystem::permissions(files / "pgpass", std::filesystem::perms(0600));
    server->run("CREATE ROLE keeper LOGIN PASSWORD '" + std::string(kPassword) + "'; CREATE ROLE certified LOGIN");
    for (const char* schema : {"costs", "state"}) {
      server->run(std::string("CREATE SCHEMA ") + schema + "; GRANT ALL ON SCHEMA " + schema + " TO keeper, certified");
    }
    const auto own = net::issue_certificate(
        authority.certificate(),
        {CertificateKind::kNode, "db", {"db.lab"}, SystemClock().wall(), std::chrono::hours(24)});
    address = server->listen({own->certificate, own->key, authority.certificate().certificate});
  }

  // As the manual writes it; no name service knows the host.
  [[nodiscard]] std::string name(const std::string& schema, const std::string& parameters,
                                 const std::string& user = "keeper", const std::string& host = "db.lab") const {
    return "postgresql://" + user + "@" + host + "/postgres?hostaddr=" + address + "&options=-csearch_path%3D" +
           schema + "&passfile=" + (files / "pgpass") + parameters;
  }
  [[nodiscard]] std::string trusting(const std::string& authority_file) const {
    return "&sslmode=verify-full&sslrootcert=" + authority_file;
  }
  [[nodiscard]] std::string trusting() const { return trusting(authority.certificate_file()); }
  // Of each session of the role: whether it is encrypted, and how.
  [[nodiscard]] std::vector<std::string> sessions_of(const std::string& role) const {
    return server->run("SELECT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = '" +
                       role + "'");
  }
};

Settings settings_for(const Lab& lab, const std::string& costs, const std::string& state) {
  Settings settings;
  settings.port = 0;
  settings.state_directory = lab.files / "coordinator";
  REQUIRE(coordinator_settings().set_from_flag(settings, "cost_database", costs).ok());
  REQUIRE(coordinator_settings().set_from_flag(settings, "state_database", state).ok());
  return settings;
}

// Why both kinds of database are refused under such a name; the same but for the kind and the schema.
struct Refusals {
  std::string costs;
  std::string state;
};

Refusals refusals(const Lab& lab, const std::string& parameters, const std::string& host = "db.lab") {
  const auto costs = CostDatabase::open(lab.name("costs", parameters, "keeper", host), OpenMode::kCreate);
  const auto state = StateStore::open(lab.name("state", parameters, "keeper", host));
  REQUIRE_FALSE(costs.ok());
  REQUIRE_FALSE(state.ok());
  CHECK_THAT(costs.error().message, Contains("postgresql://keeper@" + host) && !Contains(kPassword));
  CHECK_THAT(state.error().message, Contains("postgresql://keeper@" + host) && !Contains(kPassword));
  return {costs.error().message, state.error().message};
}

void check_both(const Refusals& refused, const std::string& found, const std::string& needed,
                const std::string& to_do) {
  for (const std::string& message : {refused.costs, refused.state}) {
    CHECK_THAT(message, Contains(found) && Contains(needed) && Contains(to_do));
  }
}

// What a program says on both of its outputs, and its exit code.
std::pair<std::string, int> outcome_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  std::array<char, 4096> part{};
  for (std::size_t read = 0; (read = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    said.append(part.data(), read);
  }
  const int status = pclose(pipe);
  return {said, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

}  // namespace

TEST_CASE("a coordinator keeps its costs and its state on a server that it knows by certificate", "[postgresql]") {
  const Lab lab;
  if (!lab.server) return;
  const KeptLog log;
  const SystemClock clock;
  net::EventLoop loop;
  const Settings settings = settings_for(lab, lab.name("costs", lab.trusting()), lab.name("state", lab.trusting()));
  {
    auto started = Daemon::start(loop, clock, settings);
    INFO((started.ok() ? "" : started.error().message));
    REQUIRE(started.ok());
    const std::unique_ptr<Daemon> daemon = std::move(started).value();
    FakeAgent agent(loop, daemon->port(), "n0", "i0");
    agent.start();
    REQUIRE(coordinator::run_until(loop, [&] { return agent.welcomes == 1; }));
    agent.send_batch(1, key(1), 7);
    REQUIRE(coordinator::run_until(loop, [&] { return agent.acknowledged.contains(1); }));
    CHECK(lab.sessions_of("keeper") == std::vector<std::string>(2, "t|TLSv1.3"));
    // What is asked for again is made again, and no less well.
    CHECK(lab.server->end_connections() >= 2);  // what asked for the sessions may still be ending
    agent.send_batch(2, key(2), 7);
    REQUIRE(coordinator::run_until(loop, [&] { return agent.acknowledged.contains(2); }));
    const std::vector<std::string> sessions = lab.sessions_of("keeper");
    CHECK(sessions.size() >= 1);
    for (const std::string& session : sessions) CHECK(session == "t|TLSv1.3");
  }
  CHECK(CostDatabase::open(settings.cost_database, OpenMode::kReadOnly)->rows().value().size() == 2);
  CHECK(StateStore::open(settings.state_database).ok());
  CHECK_THAT(log.text(), Contains("listens on") && !Contains(kPassword));
}

TEST_CASE("a server that does not show that it is the one asked for is refused", "[postgresql]") {
  const Lab lab;
  if (!lab.server) return;
  REQUIRE(CostDatabase::open(lab.name("costs", lab.trusting()), OpenMode::kCreate).ok());
  const net::TestAuthority stranger(lab.files, "stranger");
  check_both(refusals(lab, lab.trusting(stranger.certificate_file())), "certificate verify failed",
             "signed by the authority in the file that sslrootcert= names", "Name the authority of this server's");
  check_both(refusals(lab, lab.trusting(), "elsewhere.lab"),
             R"(server certificate for "db.lab" does not match host name "elsewhere.lab")",
             "a server's certificate for the host that the name says", "Write the host as the certificate has it");
  // The same is meant where the name does not say how.
  const std::string authority = "&sslrootcert=" + lab.authority.certificate_file();
  CHECK(CostDatabase::open(lab.name("costs", authority), OpenMode::kCreate).ok());
  check_both(refusals(lab, authority, "elsewhere.lab"), "does not match host name", "Needed is", "Write the host");
  check_both(refusals(lab, lab.trusting(lab.files / "none")), "none\" does not exist",
             "the certificate of the authority that signed the server's", "name its file with sslrootcert=");
  check_both(refusals(lab, "&sslmode=prefer"), "sslmode=prefer would send", "unencrypted", "Use sslmode=verify-full");
}

TEST_CASE("a server that does not encrypt is refused, also one that did before", "[postgresql]") {
  const Lab lab;
  if (!lab.server) return;
  CostDatabase costs = CostDatabase::open(lab.name("costs", lab.trusting()), OpenMode::kCreate).value();
  lab.server->listen_in_the_clear();
  check_both(refusals(lab, lab.trusting()), "server does not support SSL", "Needed is a server that encrypts",
             "Turn it on there, with ssl = on");
  const Status lost = costs.put_fact("f", "calibration", "{}");
  REQUIRE_FALSE(lost.ok());
  CHECK(lost.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(lost.error().message, Contains("server does not support SSL"));
  CHECK(lab.sessions_of("keeper").empty());
}

TEST_CASE("a client's certificate needs no password", "[postgresql]") {
  const Lab lab;
  if (!lab.server) return;
  const Nanoseconds now = SystemClock().wall();
  const auto shows = [&](const net::CredentialFiles& own) {
    return lab.name("costs", lab.trusting() + "&sslcert=" + own.certificate + "&sslkey=" + own.key, "certified");
  };
  const auto own = lab.authority.write(CertificateKind::kPerson, "certified", now, std::chrono::hours(24));
  const auto costs = CostDatabase::open(shows(own), OpenMode::kCreate);
  INFO((costs.ok() ? "" : costs.error().message));
  REQUIRE(costs.ok());
  CHECK(lab.sessions_of("certified") == std::vector<std::string>{"t|TLSv1.3"});
  const auto other = lab.authority.write(CertificateKind::kPerson, "somebody", now, std::chrono::hours(24));
  const auto refused = CostDatabase::open(shows(other), OpenMode::kReadWrite);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Contains("certificate authentication failed for user \"certified\""));
}

TEST_CASE("a password is in nothing that a coordinator says", "[postgresql]") {
  const Lab lab;
  if (!lab.server) return;
  const KeptLog log;
  const SystemClock clock;
  net::EventLoop loop;
  const std::string good = lab.name("costs", lab.trusting());
  const std::vector<std::string> bad{lab.name("costs", lab.trusting(), std::string("keeper:") + kPassword),
                                     good + "&password=" + kPassword, good + "&sslpassword=" + kPassword};
  for (const std::string& name : bad) {
    for (const Settings& settings : {settings_for(lab, name, ""), settings_for(lab, "", name)}) {
      const auto started = Daemon::start(loop, clock, settings);
      REQUIRE_FALSE(started.ok());
      CHECK_THAT(started.error().message, Contains("must not hold a password") && !Contains(kPassword));
    }
    const auto [said, code] = outcome_of(std::string(TRIMTAB_COORDINATOR) + " --log-level trace --listen 127.0.0.1:0" +
                                         " --state '" + (lab.files / "other") + "' --cost-database '" + name + "'");
    CHECK(code == exit_code(ErrorKind::kBadInput));
    CHECK_THAT(said, Contains("PGPASSFILE") && !Contains(kPassword));
  }
  // One from a file, right or wrong.
  REQUIRE(CostDatabase::open(good, OpenMode::kCreate).ok());
  lab.server->run("ALTER ROLE keeper PASSWORD 'another'");
  const auto wrong = Daemon::start(loop, clock, settings_for(lab, good, ""));
  REQUIRE_FALSE(wrong.ok());
  CHECK_THAT(wrong.error().message, Contains("password authentication failed") && !Contains(kPassword));
  CHECK_THAT(log.text(), !Contains(kPassword));
  const std::string server_log = content_of(lab.server->directory() + "/log");
  CHECK_THAT(server_log, Contains("password authentication failed") && !Contains(kPassword));
}
