// A commit whose answer is lost: whether it happened is found out, never guessed.

#include <string>

#include <catch2/catch.hpp>

#include "cut_connection.hpp"
#include "postgres_server.hpp"
#include "schema/database.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const Migrations kCounts{0x74724203,
                         "count store",
                         {"CREATE TABLE counts (n INTEGER)"},
                         {"CREATE TABLE counts (n BIGINT NOT NULL); INSERT INTO counts VALUES (0)"}};

struct Outcome {
  Status status;
  int runs = 0;
  std::int64_t counted = 0;
};

// Adds one through a connection that is cut at its first commit. Adding twice would show.
Outcome add_one(Cut cut) {
  PostgresServer& server = *PostgresServer::shared();
  const std::string name = server.new_name();
  REQUIRE(Database::open(name, DatabaseMode::kCreate, kCounts).ok());
  const CutConnection door(server.directory(), cut);
  std::string through = name;
  through.replace(name.find(server.directory()), server.directory().size(), door.directory());
  Outcome outcome;
  {
    Database database = Database::open(through, DatabaseMode::kReadWrite, kCounts).value();
    outcome.status = database.transaction([&] {
      ++outcome.runs;
      return database.execute("UPDATE counts SET n = n + 1");
    });
    CHECK(database.query("SELECT n FROM counts").ok());
  }
  CHECK(door.cuts() == 1);
  outcome.counted = std::stoll(server.run("SELECT n FROM " + PostgresServer::schema_of(name) + ".counts").at(0));
  server.drop(name);
  return outcome;
}

}  // namespace

TEST_CASE("a commit that the server never heard of is made again", "[postgresql]") {
  if (PostgresServer::shared() == nullptr) return;
  const Outcome outcome = add_one(Cut::kBefore);
  CHECK(outcome.status.ok());
  CHECK(outcome.runs == 2);
  CHECK(outcome.counted == 1);
}

TEST_CASE("a commit whose answer was lost is not made again", "[postgresql]") {
  if (PostgresServer::shared() == nullptr) return;
  const Outcome outcome = add_one(Cut::kAfter);
  CHECK(outcome.status.ok());
  CHECK(outcome.runs == 1);
  CHECK(outcome.counted == 1);
}

TEST_CASE("a commit of which the server does not know yet is waited for", "[postgresql]") {
  if (PostgresServer::shared() == nullptr) return;
  const Outcome outcome = add_one(Cut::kUnseen);
  CHECK(outcome.status.ok());
  CHECK(outcome.runs == 2);
  CHECK(outcome.counted == 1);
}
