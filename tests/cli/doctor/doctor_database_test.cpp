// What doctor says of a coordinator's databases on a real PostgreSQL server.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "../../net/loopback.hpp"
#include "base/clock.hpp"
#include "coordinator/daemon.hpp"
#include "doctor/services.hpp"
#include "postgres_server.hpp"
#include "schema/cost_database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using Catch::Contains;
using test::PostgresServer;

namespace {

constexpr const char* kPassword = "opensesame";

bool absent() {
  return PostgresServer::shared() == nullptr;
}

// A schema that `trimtab` owns and "keeper", who has a password, may use.
struct Place {
  PostgresServer& server = *PostgresServer::shared();
  std::string own = server.new_name();
  std::string schema = PostgresServer::schema_of(own);
  net::TemporaryDirectory files;

  Place() {
    server.run(std::string("DO $$ BEGIN CREATE ROLE keeper LOGIN PASSWORD '") + kPassword +
               "'; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    server.run("GRANT USAGE ON SCHEMA " + schema + " TO keeper");
  }
  ~Place() { server.drop(own); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // Under which the keeper comes, with that password.
  [[nodiscard]] std::string keeper(const std::string& password = kPassword) const {
    std::ofstream(files / "pgpass") << "*:*:*:keeper:" << password << "\n";
    std::filesystem::permissions(files / "pgpass", std::filesystem::perms(0600));
    return server.name(schema, "keeper", "&passfile=" + (files / "pgpass"));
  }
  // What doctor finds of a coordinator.toml with this database.
  [[nodiscard]] Check found(const std::string& key, const std::string& name) const {
    std::ofstream(files / "coordinator.toml") << key << " = \"" << name << "\"\n";
    const auto checks = configuration_checks(files / ".");
    REQUIRE(checks.size() == 2);
    CHECK(checks[0].health == Health::kOk);
    CHECK(checks[1].name == key);
    CHECK_THAT(checks[1].found + checks[1].remedy, !Contains(kPassword) && !Contains("wrongword"));
    return checks[1];
  }
  [[nodiscard]] Check costs(const std::string& name) const { return found("cost_database", name); }
  void make_costs() const { REQUIRE(CostDatabase::open(own, OpenMode::kCreate).ok()); }
  // Everything that the schema holds.
  [[nodiscard]] std::vector<std::string> content() const {
    return server.run("SELECT relname FROM pg_class WHERE relnamespace = '" + schema + "'::regnamespace ORDER BY 1");
  }
};

}  // namespace

TEST_CASE("doctor finds databases on a server well, and changes nothing there", "[postgresql]") {
  if (absent()) return;
  const Place place;
  for (const char* key : {"cost_database", "state_database"}) {
    const Check empty = place.found(key, place.own);
    CHECK(empty.health == Health::kOk);
    CHECK_THAT(empty.found, Contains("PostgreSQL ") && Contains("as trimtab, no tables yet"));
  }
  CHECK(place.content().empty());
  place.make_costs();
  const auto before = place.content();
  const Check made = place.costs(place.own);
  CHECK(made.health == Health::kOk);
  CHECK_THAT(made.found, Contains("as trimtab, version "));
  CHECK(place.content() == before);
}

TEST_CASE("doctor says that a database server is not there, and what is needed", "[postgresql]") {
  if (absent()) return;
  const Place place;
  const Check gone = place.costs("postgresql://trimtab@127.0.0.1:1/trimtab");
  CHECK(gone.health == Health::kFail);
  CHECK_THAT(gone.found, Contains("127.0.0.1:1") && Contains("cannot connect") && Contains("a server that runs"));
  CHECK_THAT(gone.remedy, Contains("docs/operating.md"));
}

TEST_CASE("doctor says that a server does not take the password, without repeating it", "[postgresql]") {
  if (absent()) return;
  const Place place;
  const Check wrong = place.costs(place.keeper("wrongword"));
  CHECK(wrong.health == Health::kFail);
  CHECK_THAT(wrong.found, Contains("password authentication failed") && Contains("PGPASSFILE"));
  const Check named = place.costs("postgresql://keeper:" + std::string(kPassword) + "@db.lab/trimtab");
  CHECK(named.health == Health::kFail);
  CHECK_THAT(named.found, Contains("postgresql://keeper@db.lab/trimtab") && Contains("must not hold a password"));
}

TEST_CASE("doctor says which right a role lacks, to make tables and to change them", "[postgresql]") {
  if (absent()) return;
  const Place place;
  const Check none = place.costs(place.keeper());
  CHECK(none.health == Health::kFail);
  CHECK_THAT(none.found, Contains("GRANT CREATE ON SCHEMA " + place.schema + " TO keeper"));
  place.make_costs();
  place.server.run("GRANT SELECT ON ALL TABLES IN SCHEMA " + place.schema + " TO keeper");
  const Check reader = place.costs(place.keeper());
  CHECK(reader.health == Health::kFail);
  CHECK_THAT(reader.found, Contains("as keeper") && Contains("batches") && Contains("GRANT SELECT, INSERT, UPDATE"));
  place.server.run("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + place.schema + " TO keeper");
  CHECK(place.costs(place.keeper()).health == Health::kOk);
}

TEST_CASE("doctor tells a database of a newer release from one that will be upgraded", "[postgresql]") {
  if (absent()) return;
  const Place place;
  place.make_costs();
  const std::string table = place.schema + ".trimtab_tables";
  place.server.run("UPDATE " + table + " SET version = 99");
  const Check newer = place.costs(place.own);
  CHECK(newer.health == Health::kFail);
  CHECK_THAT(newer.found, Contains("version 99") && Contains("knows versions up to"));
  CHECK_THAT(newer.remedy, Contains("of another version"));
  place.server.run("UPDATE " + table + " SET version = 1");
  const Check older = place.costs(place.own);
  CHECK(older.health == Health::kWarn);
  CHECK_THAT(older.found, Contains("version 1") && Contains("upgrades it to"));
  CHECK(place.server.run("SELECT version FROM " + table) == std::vector<std::string>{"1"});
  place.server.run("GRANT ALL ON ALL TABLES IN SCHEMA " + place.schema + " TO keeper");
  const Check foreign = place.costs(place.keeper());
  CHECK(foreign.health == Health::kFail);
  CHECK_THAT(foreign.found, Contains("keeper does not own") && Contains("db merge"));
}

TEST_CASE("doctor names who holds a coordinator's state on a server", "[postgresql]") {
  if (absent()) return;
  const Place place;
  const SystemClock clock;
  net::EventLoop loop;
  coordinator::Settings settings;
  settings.port = 0;
  settings.state_directory = place.files / "coordinator";
  settings.state_database = place.own;
  const auto daemon = coordinator::Daemon::start(loop, clock, settings);
  REQUIRE(daemon.ok());
  const Check held = place.found("state_database", place.own);
  CHECK(held.health == Health::kOk);
  CHECK_THAT(held.found, Contains("held by a program on this machine (server process "));
  const Check rights = place.found("state_database", place.keeper());
  CHECK(rights.health == Health::kFail);
  CHECK_THAT(rights.found, Contains("the role lacks a right"));
}
