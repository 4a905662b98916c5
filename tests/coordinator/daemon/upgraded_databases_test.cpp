// A coordinator of a new release on the databases of an older one, on a server.

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "../fake_agent.hpp"
#include "../kept_log.hpp"
#include "base/clock.hpp"
#include "coordinator/daemon.hpp"
#include "postgres_server.hpp"
#include "state_store.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using test::PostgresServer;

TEST_CASE("a coordinator that upgrades its state on a server says where it was copied to, with its audit log",
          "[postgresql]") {
  PostgresServer* const server = PostgresServer::shared();
  if (server == nullptr) return;
  const TemporaryDirectory directory;
  const std::string name = server->new_name();
  const std::string copy = PostgresServer::schema_of(name) + "_backup_v1";
  Migrations first = state_migrations();
  first.server_steps.resize(1);
  std::string identity;
  {
    Database old = Database::open(name, DatabaseMode::kCreate, first).value();
    identity = as_text(old.query("SELECT coordinator FROM identity").value().at(0).at(0));
    REQUIRE(
        old.execute("INSERT INTO audit (at_ns, who, what, job, run, why) VALUES (1, 'w', 'submit', 'j', 1, '')").ok());
  }
  const KeptLog log;
  {
    const SystemClock clock;
    net::EventLoop loop;
    Settings settings;
    settings.port = 0;
    settings.state_directory = directory.path();
    settings.state_database = name;
    const auto started = Daemon::start(loop, clock, settings);
    INFO((started.ok() ? "" : started.error().message));
    REQUIRE(started.ok());
  }
  CHECK_THAT(log.text(), Contains("was upgraded to this release; as it was before it is in the schema " + copy));
  {
    Database old = Database::open(server->name(copy), DatabaseMode::kReadWrite, first).value();
    CHECK(as_text(old.query("SELECT coordinator FROM identity").value().at(0).at(0)) == identity);
    CHECK(old.query("SELECT entry, what FROM audit").value() == Rows{{std::int64_t{1}, std::string("submit")}});
    CHECK_THAT(old.execute("DELETE FROM audit").error().message, Contains("only added to"));
  }
  server->run("DROP SCHEMA " + copy + " CASCADE");
  server->drop(name);
}
