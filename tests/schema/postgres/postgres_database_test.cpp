// What is said of databases on a server alone.

#include <chrono>
#include <csignal>
#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "base/random.hpp"
#include "postgres_server.hpp"
#include "schema/database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const Migrations kThings{0x74724201,
                         "thing store",
                         {"CREATE TABLE things (id INTEGER PRIMARY KEY, n INTEGER)"},
                         {"CREATE TABLE things (id BIGINT PRIMARY KEY, n BIGINT NOT NULL DEFAULT 0)"}};

// A schema of the shared server, dropped at the end.
class Place {
 public:
  Place() : server(*PostgresServer::shared()), name(server.new_name()), schema(PostgresServer::schema_of(name)) {}
  ~Place() { server.drop(name); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  [[nodiscard]] Database open(bool exclusive = false) const { return open_as(name, exclusive).value(); }
  [[nodiscard]] static Result<Database> open_as(const std::string& name, bool exclusive = false,
                                                DatabaseMode mode = DatabaseMode::kCreate) {
    return Database::open(name, mode, kThings, exclusive);
  }

  PostgresServer& server;
  const std::string name;
  const std::string schema;
};

bool absent() {
  return PostgresServer::shared() == nullptr;
}

std::int64_t count(const Database& database) {
  return as_integer(database.query("SELECT count(*) FROM things").value().at(0).at(0));
}

Status insert(Database& database, std::int64_t id) {
  return database.execute("INSERT INTO things (id) VALUES (?)", {id});
}

}  // namespace

TEST_CASE("a connection that was lost is made again for the next statement", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database database = place.open();
  CHECK(insert(database, 1).ok());
  CHECK(place.server.end_connections() >= 1);
  CHECK(count(database) == 1);
  CHECK(place.server.end_connections() >= 1);
  CHECK(insert(database, 2).ok());
  CHECK(count(database) == 2);
}

TEST_CASE("a transaction whose connection is lost is run again, and stored once", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database database = place.open();
  int runs = 0;
  const Status stored = database.transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(insert(database, 1));
    if (++runs == 1) CHECK(place.server.end_connections() >= 1);
    return insert(database, 2);
  });
  CHECK(stored.ok());
  CHECK(runs == 2);
  CHECK(count(database) == 2);
}

TEST_CASE("a server that stops is an error until it runs again", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database database = place.open();
  REQUIRE(insert(database, 1).ok());
  place.server.stop();
  const Status refused = insert(database, 2);
  const auto unread = database.query("SELECT 1");
  place.server.start();
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(refused.error().message,
             Catch::Contains("thing store " + place.name) && Catch::Contains("cannot connect"));
  CHECK_FALSE(unread.ok());
  CHECK(insert(database, 2).ok());
  CHECK(count(database) == 2);
}

TEST_CASE("a server that does not answer is not asked again and again", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database database = Place::open_as(place.name + "&connect_timeout=2").value();
  CHECK(place.server.end_connections() >= 1);
  place.server.freeze();
  const Status slow = insert(database, 1);
  std::string again;
  // At once: it would take 200 s to ask each time.
  for (int i = 0; i < 100; ++i) again = insert(database, 1).error().message;
  place.server.thaw();
  CHECK_THAT(slow.error().message, Catch::Contains("cannot connect") && Catch::Contains("timeout expired"));
  CHECK_THAT(again, Catch::Contains("timeout expired") && Catch::Contains("left alone for a while"));
  CHECK(count(place.open()) == 0);
}

TEST_CASE("a server that stands still under a connection takes no longer than its limit", "[postgresql]") {
  if (absent()) return;
  const Place place;
  std::string impatient = place.name;
  impatient.insert(impatient.find("-csearch_path"), "-cstatement_timeout%3D600%20");
  Database database = Place::open_as(impatient).value();
  REQUIRE(insert(database, 1).ok());
  const auto process = static_cast<pid_t>(as_integer(database.query("SELECT pg_backend_pid()::int8").value()[0][0]));
  REQUIRE(kill(process, SIGSTOP) == 0);
  const auto begin = std::chrono::steady_clock::now();
  const Status refused = insert(database, 2);
  const auto unread = database.query("SELECT 1");
  const auto waited = std::chrono::steady_clock::now() - begin;
  kill(process, SIGCONT);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(refused.error().message, Catch::Contains("has not answered within 1100 ms"));
  CHECK_THAT(unread.error().message, Catch::Contains("left alone for a while"));
  CHECK(waited >= std::chrono::milliseconds(1100));
  CHECK(waited < std::chrono::seconds(5));
  CHECK(count(place.open()) == 1);
}

TEST_CASE("of two transactions that wait for each other both are stored in the end", "[postgresql]") {
  if (absent()) return;
  const Place place;
  {
    Database database = place.open();
    REQUIRE(insert(database, 0).ok());
    REQUIRE(insert(database, 1).ok());
  }
  std::latch both(2);
  std::vector<int> runs(2, 0);
  std::vector<std::string> failures(2);
  const auto add_in_order = [&](std::int64_t first) {
    Database database = place.open();
    int& mine = runs[static_cast<std::size_t>(first)];
    const Status stored = database.transaction([&]() -> Status {
      TRIMTAB_TRY_STATUS(database.execute("UPDATE things SET n = n + 1 WHERE id = ?", {first}));
      if (++mine == 1) both.arrive_and_wait();
      return database.execute("UPDATE things SET n = n + 1 WHERE id = ?", {1 - first});
    });
    if (!stored.ok()) failures[static_cast<std::size_t>(first)] = stored.error().message;
  };
  std::thread other(add_in_order, 1);
  add_in_order(0);
  other.join();
  CHECK(failures == std::vector<std::string>(2));
  CHECK(runs[0] + runs[1] >= 3);
  CHECK(place.server.run("SELECT n FROM " + place.schema + ".things") == std::vector<std::string>{"2", "2"});
}

TEST_CASE("what follows a failure inside a transaction is not stored on its own on a server, either", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database database = place.open();
  const Status status = database.transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(insert(database, 1));
    (void)insert(database, 1);
    (void)insert(database, 2);
    return {};
  });
  REQUIRE_FALSE(status.ok());
  CHECK_THAT(status.error().message, Catch::Contains("duplicate key"));
  CHECK(count(database) == 0);
  CHECK(insert(database, 1).ok());
}

TEST_CASE("waiting for another's lock ends with an error that says so", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database holder = place.open();
  REQUIRE(insert(holder, 1).ok());
  Database waiter = Place::open_as(place.name + "%20-clock_timeout%3D20ms").value();
  const Status held = holder.transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(holder.execute("UPDATE things SET n = 1 WHERE id = 1"));
    const Status refused = waiter.execute("UPDATE things SET n = 2 WHERE id = 1");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kUnavailable);
    CHECK_THAT(refused.error().message, Catch::Contains("lock_timeout") && Catch::Contains("nothing of this change"));
    return {};
  });
  CHECK(held.ok());
  CHECK(waiter.execute("UPDATE things SET n = 2 WHERE id = 1").ok());
}

TEST_CASE("a statement that takes too long is stopped", "[postgresql]") {
  if (absent()) return;
  const Place place;
  const Database database = Place::open_as(place.name + "%20-cstatement_timeout%3D500ms").value();
  const auto stopped = database.query("SELECT pg_sleep(20)");
  REQUIRE_FALSE(stopped.ok());
  CHECK_THAT(stopped.error().message, Catch::Contains("statement_timeout"));
  CHECK(count(database) == 0);
  // Where nobody says otherwise there are bounds, too.
  const auto bounds = place.open().query(
      "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), "
      "current_setting('idle_in_transaction_session_timeout'), current_setting('default_transaction_read_only')");
  CHECK(bounds.value().at(0) == Row{std::string("6s"), std::string("5s"), std::string("1min"), std::string("on")});
}

TEST_CASE("storing many costs scans no table, also where statistics were taken of empty ones", "[postgresql]") {
  if (absent()) return;
  const Place place;
  { REQUIRE(CostDatabase::open(place.name, OpenMode::kCreate).ok()); }
  const std::string tables = "FROM pg_stat_all_tables WHERE schemaname = '" + place.schema + "'";
  for (const char* table : {"cost_keys", "costs", "fingerprints", "origins", "batches"}) {
    place.server.run("ANALYZE " + place.schema + "." + table);
  }
  std::vector<Cost> costs;
  for (int i = 0; i < 1000; ++i) costs.push_back(forward_cost("op" + std::to_string(i), {i}));
  {
    // Long enough that they are folded.
    CostDatabase database = CostDatabase::open(place.name, OpenMode::kReadWrite).value();
    for (std::uint64_t number = 1; number <= 130; ++number) {
      const auto count = number <= 2 ? costs.size() : 1;
      const std::vector<Cost> some(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(count));
      REQUIRE(database.add_batch({"agent", number}, sample_fingerprint(), "active", some).value());
    }
  }
  (void)place.server.end_connections();  // what they counted is told when they end
  // Keys, and sums of costs.
  CHECK(place.server.run("SELECT sum(n_tup_ins) >= 2000 " + tables).at(0) == "t");
  // A scan for each cost would read a million rows.
  CHECK(place.server.run("SELECT sum(seq_tup_read) < 100000 " + tables).at(0) == "t");
}

TEST_CASE("an owner whose connection was lost owns again, unless another was there meanwhile", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database owner = place.open(true);
  CHECK(place.server.end_connections() >= 1);
  CHECK(insert(owner, 1).ok());
  const auto refused = Place::open_as(place.name, true);
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("belongs to a program on this machine (server process "));
  CHECK(place.server.end_connections() >= 1);
  {
    Database next = place.open(true);
    CHECK_THAT(insert(owner, 2).error().message, Catch::Contains("belongs to a program"));
    CHECK(insert(next, 3).ok());
  }
  (void)place.server.end_connections();  // a closed one may still be ending
  const Status late = insert(owner, 4);
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(late.error().message, Catch::Contains("was taken over by another program"));
  CHECK(count(place.open()) == 2);
}

TEST_CASE("a program that runs while a newer release upgrades the tables stops changing them", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database old = place.open();
  REQUIRE(insert(old, 1).ok());
  Migrations newer = kThings;
  newer.steps.push_back("ALTER TABLE things ADD COLUMN size INTEGER");
  newer.server_steps.push_back("ALTER TABLE things ADD COLUMN size BIGINT");
  REQUIRE(Database::open(place.name, DatabaseMode::kReadWrite, newer).ok());
  const Status refused = insert(old, 2);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);  // a newer program will take it
  CHECK_THAT(refused.error().message, Catch::Contains("version 2") && Catch::Contains("up to 1"));
  CHECK(count(old) == 1);
}

TEST_CASE("an upgrade waits for the changes that were begun", "[postgresql]") {
  if (absent()) return;
  const Place place;
  Database old = place.open();
  Migrations newer = kThings;
  newer.server_steps.push_back("ALTER TABLE things ADD COLUMN size BIGINT");
  const Status stored = old.transaction([&]() -> Status {
    const auto refused = Database::open(place.name + "%20-clock_timeout%3D20ms", DatabaseMode::kReadWrite, newer);
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, Catch::Contains("lock_timeout") && Catch::Contains("it is unchanged"));
    return insert(old, 1);
  });
  CHECK(stored.ok());
  CHECK(Database::open(place.name, DatabaseMode::kReadWrite, newer).ok());
}

TEST_CASE("programs that make the same tables at once make them once", "[postgresql]") {
  if (absent()) return;
  const Place place;
  std::vector<std::string> failures(6);
  std::vector<std::thread> threads;
  for (std::string& failure : failures) {
    threads.emplace_back([&failure, &place] {
      const auto opened = CostDatabase::open(place.name, OpenMode::kCreate);
      if (!opened.ok()) failure = opened.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<std::string>(6));
}

TEST_CASE("two kinds of database share a schema, and somebody else's table is left alone", "[postgresql]") {
  if (absent()) return;
  const Place place;
  place.server.run("CREATE TABLE " + place.schema + ".costs (theirs BIGINT)");
  const auto refused = CostDatabase::open(place.name, OpenMode::kCreate);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kBadInput);
  CHECK_THAT(refused.error().message, Catch::Contains("cannot create the tables; nothing was changed") &&
                                          Catch::Contains("\"costs\"") && Catch::Contains("a schema of its own"));
  const std::string tables = "SELECT count(*) FROM pg_tables WHERE schemaname = '" + place.schema + "'";
  CHECK(place.server.run(tables).at(0) == "1");
  {
    Database things = place.open();
    CHECK(insert(things, 1).ok());
  }
  place.server.run("DROP TABLE " + place.schema + ".costs");
  CHECK(CostDatabase::open(place.name, OpenMode::kCreate).ok());
}

TEST_CASE("a search_path without a schema is an error that says what to do", "[postgresql]") {
  if (absent()) return;
  const auto refused = Place::open_as(PostgresServer::shared()->name("no_such_schema"));
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("CREATE SCHEMA trimtab"));
}

TEST_CASE("a role that may only read reads, and is told what it lacks for more", "[postgresql]") {
  if (absent()) return;
  const Place place;
  {
    CostDatabase database = CostDatabase::open(place.name, OpenMode::kCreate).value();
    REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value());
  }
  const std::string role = place.schema + "_reader";
  place.server.run("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + place.schema + " TO " + role +
                   "; GRANT SELECT ON ALL TABLES IN SCHEMA " + place.schema + " TO " + role);
  const std::string name = place.server.name(place.schema, role);
  const CostDatabase reader = CostDatabase::open(name, OpenMode::kReadOnly).value();
  CHECK(cost_count(reader) == 1);
  CostDatabase writer = CostDatabase::open(name, OpenMode::kReadWrite).value();
  const auto refused = writer.add_batch({"agent", 2}, sample_fingerprint(), "active", {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(refused.error().message, Catch::Contains("permission denied") && Catch::Contains("GRANT"));
  place.server.run("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

TEST_CASE("a role that owns nothing stores costs with the rights that the manual names", "[postgresql]") {
  if (absent()) return;
  const Place place;
  { REQUIRE(CostDatabase::open(place.name, OpenMode::kCreate).ok()); }
  const std::string role = place.schema + "_writer";
  place.server.run("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + place.schema + " TO " + role +
                   "; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + place.schema + " TO " + role);
  {
    CostDatabase writer = CostDatabase::open(place.server.name(place.schema, role), OpenMode::kCreate).value();
    for (std::uint64_t number = 1; number <= 64; ++number) {
      REQUIRE(writer.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value());
    }
    CHECK(writer.put_fact("f", "calibration", "{}").ok());
    CHECK(cost_count(writer) == 1);
  }
  place.server.run("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

TEST_CASE("a password comes from a file, and is in no message", "[postgresql]") {
  if (absent()) return;
  const Place place;
  place.server.run("CREATE ROLE keeper LOGIN PASSWORD 'open sesame'; GRANT ALL ON SCHEMA " + place.schema +
                   " TO keeper");
  const std::string name = place.server.name(place.schema, "keeper");
  const auto refused = Place::open_as(name + "&passfile=/nonexistent");
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("no password supplied") && Catch::Contains("~/.pgpass"));
  const TemporaryDirectory directory;
  const auto with_file = [&](const std::string& password) {
    write_bytes(directory.file("pgpass"), "*:*:*:keeper:" + password + "\n");
    std::filesystem::permissions(directory.file("pgpass"), std::filesystem::perms(0600));
    return Place::open_as(name + "&passfile=" + directory.file("pgpass"));
  };
  CHECK(with_file("open sesame").ok());
  const auto wrong = with_file("not sesame");
  REQUIRE_FALSE(wrong.ok());
  CHECK_THAT(wrong.error().message, Catch::Contains("password authentication failed") && !Catch::Contains("sesame"));
  place.server.run("DROP OWNED BY keeper; DROP ROLE keeper");
}

TEST_CASE("kernels' long names are keys, and what no index holds is refused", "[postgresql]") {
  if (absent()) return;
  const Place place;
  CostDatabase database = CostDatabase::open(place.name, OpenMode::kCreate).value();
  Random random(3);
  std::string name;
  while (name.size() < 20'000) name += std::to_string(random.next());
  const std::string other = name + "x";
  const std::vector<Cost> costs{forward_cost(name, {1}), forward_cost(other, {2})};
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", costs).value());
  REQUIRE(database.add_batch({"agent", 2}, sample_fingerprint(), "active", costs).value());
  const std::string fingerprint = hash(sample_fingerprint());
  CHECK(find_cost(database, fingerprint, forward_key(name))->statistics == statistics_of({1, 1}));
  CHECK(find_cost(database, fingerprint, forward_key(other))->statistics == statistics_of({2, 2}));
  const auto refused = database.add_batch({name, 1}, sample_fingerprint(), "active", costs);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kBadInput);
  CHECK_THAT(refused.error().message, Catch::Contains("longer than PostgreSQL can keep in order"));
  CHECK(database.add_batch({"agent", 3}, sample_fingerprint(), "active", costs).value());
}
