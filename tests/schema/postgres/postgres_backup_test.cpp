// The copy that an upgrade on a server makes first.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "costs/cost_tables.hpp"
#include "postgres_server.hpp"
#include "schema/cost_database.hpp"
#include "schema/database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// References to a table that is made later, counters, a row of the step's own, and a log that is only added to.
constexpr const char* kFirst =
    "CREATE TABLE things (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name BYTEA NOT NULL UNIQUE, owner "
    "BIGINT);"
    "CREATE TABLE owners (id BIGINT PRIMARY KEY);"
    "ALTER TABLE things ADD FOREIGN KEY (owner) REFERENCES owners (id);"
    "CREATE TABLE horizon (at BIGINT NOT NULL); INSERT INTO horizon VALUES (0);"
    "CREATE FUNCTION log_keeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'only added to'; END $$;"
    "CREATE TABLE log (entry BIGINT);"
    "CREATE TRIGGER log_keeps BEFORE DELETE ON log FOR EACH ROW EXECUTE FUNCTION log_keeps();"
    "CREATE TRIGGER log_keeps_all BEFORE TRUNCATE ON log FOR EACH STATEMENT EXECUTE FUNCTION log_keeps()";
constexpr const char* kSecond = "ALTER TABLE things DROP COLUMN owner; DROP TABLE owners; DELETE FROM horizon";

Migrations things(std::vector<std::string> server_steps) {
  return {0x74724201, "thing store", {"CREATE TABLE things (id INTEGER PRIMARY KEY)"}, std::move(server_steps)};
}

// A schema of the shared server and those of its copies.
class Upgraded {
 public:
  Upgraded() : server(*PostgresServer::shared()), name(server.new_name()), schema(PostgresServer::schema_of(name)) {}
  ~Upgraded() {
    for (const std::string& copy : copies()) server.run("DROP SCHEMA " + copy + " CASCADE");
    server.drop(name);
  }
  Upgraded(const Upgraded&) = delete;
  Upgraded& operator=(const Upgraded&) = delete;

  void make_first() const {
    Database database = Database::open(name, DatabaseMode::kCreate, things({kFirst})).value();
    REQUIRE(database.execute("INSERT INTO owners VALUES (7)").ok());
    REQUIRE(database.execute("INSERT INTO things (name, owner) VALUES ('a', 7), ('b', 7)").ok());
    REQUIRE(database.execute("DELETE FROM things WHERE name = 'b'").ok());
    REQUIRE(database.execute("UPDATE horizon SET at = 5").ok());
    REQUIRE(database.execute("INSERT INTO log VALUES (1)").ok());
  }
  [[nodiscard]] std::vector<std::string> copies() const {
    return server.run("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, '" + schema +
                      "_backup_v') ORDER BY nspname");
  }

  PostgresServer& server;
  const std::string name;
  const std::string schema;
};

bool absent() {
  return PostgresServer::shared() == nullptr;
}

}  // namespace

TEST_CASE("before tables on a server are upgraded a copy is made, which the release before opens", "[postgresql]") {
  if (absent()) return;
  const Upgraded place;
  place.make_first();
  CHECK(Database::open(place.name, DatabaseMode::kReadWrite, things({kFirst})).value().backup().empty());
  {
    const Database upgraded = Database::open(place.name, DatabaseMode::kReadWrite, things({kFirst, kSecond})).value();
    CHECK(upgraded.backup() == "the schema " + place.schema + "_backup_v1");
    CHECK(upgraded.query("SELECT 1 FROM horizon").value().empty());
  }
  REQUIRE(place.copies() == std::vector<std::string>{place.schema + "_backup_v1"});

  Database copy =
      Database::open(place.server.name(place.copies()[0]), DatabaseMode::kReadWrite, things({kFirst})).value();
  CHECK(copy.backup().empty());
  CHECK(copy.query("SELECT id, name, owner FROM things").value() ==
        Rows{{std::int64_t{1}, std::string("a"), std::int64_t{7}}});
  CHECK(copy.query("SELECT at FROM horizon").value() == Rows{{std::int64_t{5}}});
  // Its counters go on, its keys, references and triggers hold.
  CHECK(copy.execute_returning("INSERT INTO things (name) VALUES ('c') RETURNING id").value() ==
        Rows{{std::int64_t{3}}});
  CHECK_THAT(copy.execute("INSERT INTO things (name) VALUES ('a')").error().message, Catch::Contains("duplicate key"));
  CHECK_THAT(copy.execute("INSERT INTO things (name, owner) VALUES ('d', 8)").error().message,
             Catch::Contains("foreign key"));
  CHECK_THAT(copy.execute("DELETE FROM log").error().message, Catch::Contains("only added to"));
  CHECK(place.server.run("SELECT count(*) FROM " + place.schema + ".things") == std::vector<std::string>{"1"});
}

TEST_CASE("an upgrade on a server that fails leaves the old tables and no copy", "[postgresql]") {
  if (absent()) return;
  const Upgraded place;
  place.make_first();
  const auto failed = Database::open(place.name, DatabaseMode::kReadWrite, things({kFirst, kSecond, "no SQL"}));
  REQUIRE_FALSE(failed.ok());
  CHECK_THAT(failed.error().message, Catch::Contains("from version 1 to 3") && Catch::Contains("it is unchanged"));
  CHECK(place.copies().empty());
  CHECK(place.server.run("SELECT owner FROM " + place.schema + ".things") == std::vector<std::string>{"7"});
}

TEST_CASE("an earlier copy on a server is not replaced, and a long schema name still has one", "[postgresql]") {
  if (absent()) return;
  const Upgraded place;
  place.make_first();
  place.server.run("CREATE SCHEMA " + place.schema + "_backup_v1; CREATE TABLE " + place.schema +
                   "_backup_v1.mine (x INT)");
  {
    const Database upgraded = Database::open(place.name, DatabaseMode::kReadWrite, things({kFirst, kSecond})).value();
    CHECK(upgraded.backup() == "the schema " + place.schema + "_backup_v1_2");
  }
  CHECK(place.copies().size() == 2);
  CHECK(place.server.run("SELECT count(*) FROM " + place.schema + "_backup_v1.mine").size() == 1);

  std::string longest = place.schema + "_backup_v_";
  longest.resize(63, 'x');
  place.server.run("CREATE SCHEMA " + longest);
  const std::string name = place.server.name(longest);
  { REQUIRE(Database::open(name, DatabaseMode::kCreate, things({kFirst})).ok()); }
  const auto upgraded = Database::open(name, DatabaseMode::kReadWrite, things({kFirst, kSecond}));
  REQUIRE(upgraded.ok());
  CHECK(upgraded->backup() == "the schema " + longest.substr(0, 63 - 10) + "_backup_v1");
}

TEST_CASE("an upgrade is refused to a role that may not make the copy's schema, and says what to grant",
          "[postgresql]") {
  if (absent()) return;
  const Upgraded place;
  const std::string role = place.schema + "_keeper";
  place.server.run("CREATE ROLE " + role + " LOGIN; GRANT ALL ON SCHEMA " + place.schema + " TO " + role);
  const std::string name = place.server.name(place.schema, role);
  { REQUIRE(Database::open(name, DatabaseMode::kCreate, things({kFirst})).ok()); }
  const auto refused = Database::open(name, DatabaseMode::kReadWrite, things({kFirst, kSecond}));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(refused.error().message, Catch::Contains("it is unchanged") &&
                                          Catch::Contains("may not make one in the database postgres") &&
                                          Catch::Contains("GRANT CREATE ON DATABASE postgres TO " + role));
  CHECK(place.copies().empty());
  place.server.run("GRANT CREATE ON DATABASE postgres TO " + role);
  CHECK(Database::open(name, DatabaseMode::kReadWrite, things({kFirst, kSecond})).ok());
  CHECK(place.copies().size() == 1);
  place.server.run("DROP OWNED BY " + role + " CASCADE; DROP ROLE " + role);
}

TEST_CASE("costs of the first version on a server are upgraded beside a copy of them alone", "[postgresql]") {
  if (absent()) return;
  const Upgraded place;
  Migrations first = cost_tables::migrations();
  first.server_steps.resize(1);
  const std::string fingerprint = hash(sample_fingerprint());
  const Cost cost = forward_cost("a", {7});
  {
    Database old = Database::open(place.name, DatabaseMode::kCreate, first).value();
    const auto rows = [&](const std::string& sql, const Row& row) { REQUIRE(old.execute(sql, row).ok()); };
    rows("INSERT INTO fingerprints VALUES (?, ?)", {fingerprint, to_json(sample_fingerprint())});
    rows("INSERT INTO origins (name) VALUES ('agent')", {});
    rows("INSERT INTO batches VALUES (1, 1)", {});
    rows(
        "INSERT INTO cost_keys (kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, algorithm, "
        "protocol, channels, kernel_class) VALUES (?, ?, ?, ?, ?, ?, 0, 0, '', '', '', 0, '')",
        {std::string("operator_forward"), cost.key.subject, cost.key.dtype, std::int64_t{cost.key.samples},
         std::int64_t{cost.key.tp}, cost.key.sharding});
    rows("INSERT INTO costs VALUES (?, 1, 'active', 1, 1, ?)", {fingerprint, cost.statistics.encode()});
  }
  { REQUIRE(Database::open(place.name, DatabaseMode::kCreate, things({kFirst})).ok()); }  // another kind beside it
  const CostDatabase upgraded = CostDatabase::open(place.name, OpenMode::kReadWrite).value();
  CHECK(upgraded.backup() == "the schema " + place.schema + "_backup_v1");
  CHECK(find_cost(upgraded, fingerprint, cost.key)->statistics == cost.statistics);
  const std::string copy = place.copies().at(0);
  CHECK(
      place.server.run("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = '" + copy +
                       "'::regnamespace ORDER BY relname") ==
      std::vector<std::string>{"batches", "cost_keys", "costs", "facts", "fingerprints", "origins", "trimtab_tables"});
  CHECK(place.server.run("SELECT version FROM " + copy + ".trimtab_tables") == std::vector<std::string>{"1"});
  const Database old = Database::open(place.server.name(copy), DatabaseMode::kReadOnly, first).value();
  CHECK(old.query("SELECT number, statistics FROM costs").value() == Rows{{std::int64_t{1}, cost.statistics.encode()}});
}
