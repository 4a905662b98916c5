#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "schema/database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// A step for files and the same for servers.
struct Step {
  std::string file;
  std::string server;
};

Migrations things(const std::vector<Step>& steps) {
  Migrations migrations{0x74724201, "thing store", {}};
  for (const Step& step : steps) {
    migrations.steps.push_back(step.file);
    migrations.server_steps.push_back(step.server);
  }
  return migrations;
}

const Step kFirst{"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)",
                  "CREATE TABLE things (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name BYTEA)"};
const Step kSecond{"ALTER TABLE things ADD COLUMN size INTEGER; UPDATE things SET size = length(name)",
                   "ALTER TABLE things ADD COLUMN size BIGINT; UPDATE things SET size = length(name)"};
const Step kThird{"CREATE TABLE more (x)", "CREATE TABLE more (x BIGINT)"};
const Step kTwice = kFirst;
const Step kNoSql{"no SQL", "no SQL"};

void make_first(const std::string& name) {
  Database database = Database::open(name, DatabaseMode::kCreate, things({kFirst})).value();
  REQUIRE(database.execute("INSERT INTO things (name) VALUES ('four')").ok());
}

std::int64_t version(const Database& database) {
  return as_integer(database.query("PRAGMA user_version").value()[0][0]);
}

}  // namespace

TEST_CASE("an older database is upgraded") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  make_first(place.name("d"));
  { CHECK(Database::open(place.name("d"), DatabaseMode::kReadWrite, things({kFirst, kSecond})).ok()); }
  const Database database = Database::open(place.name("d"), DatabaseMode::kReadOnly, things({kFirst, kSecond})).value();
  CHECK(as_integer(database.query("SELECT size FROM things").value().at(0).at(0)) == 4);
}

TEST_CASE("before a file is upgraded a copy of the old one is made") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  make_first(path);
  { CHECK(version(Database::open(path, DatabaseMode::kReadWrite, things({kFirst, kSecond})).value()) == 2); }
  const Database copy = Database::open(path + ".v1.backup", DatabaseMode::kReadOnly, things({kFirst})).value();
  CHECK(version(copy) == 1);
  CHECK(as_text(copy.query("SELECT name FROM things").value().at(0).at(0)) == "four");
  CHECK_FALSE(std::filesystem::exists(path + ".v1.backup.tmp"));
}

TEST_CASE("a database of the newest version is not copied") {
  const TemporaryDirectory directory;
  make_first(directory.file("d"));
  REQUIRE(Database::open(directory.file("d"), DatabaseMode::kReadWrite, things({kFirst})).ok());
  CHECK_FALSE(std::filesystem::exists(directory.file("d.v1.backup")));
}

TEST_CASE("several steps are taken in one upgrade") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  make_first(place.name("d"));
  const Migrations third = things({kFirst, kSecond, kThird});
  { CHECK(Database::open(place.name("d"), DatabaseMode::kReadWrite, third).value().query("SELECT x FROM more").ok()); }
  CHECK(Database::open(place.name("d"), DatabaseMode::kReadOnly, third).ok());
}

TEST_CASE("an upgrade that fails leaves the old database as it was") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  const std::string name = place.name("d");
  make_first(name);
  const auto failed = Database::open(name, DatabaseMode::kReadWrite, things({kFirst, kSecond, kTwice}));
  REQUIRE_FALSE(failed.ok());
  CHECK_THAT(failed.error().message, Catch::Contains("from version 1 to 3") && Catch::Contains("it is unchanged"));
  if (place.backend() == Backend::kSqlite) CHECK_THAT(failed.error().message, Catch::Contains(name + ".v1.backup"));
  {
    const Database database = Database::open(name, DatabaseMode::kReadWrite, things({kFirst})).value();
    CHECK_FALSE(database.query("SELECT size FROM things").ok());
  }
  // A corrected release then succeeds, the earlier copy notwithstanding.
  CHECK(Database::open(name, DatabaseMode::kReadWrite, things({kFirst, kSecond})).ok());
}

TEST_CASE("a newer database is refused by naming both versions and what to do, and stays as it is") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  const std::string name = place.name("d");
  REQUIRE(Database::open(name, DatabaseMode::kCreate, things({kFirst, kSecond})).ok());
  const std::string before = bytes_of(name);
  for (const DatabaseMode mode : {DatabaseMode::kCreate, DatabaseMode::kReadWrite, DatabaseMode::kReadOnly}) {
    const auto refused = Database::open(name, mode, things({kFirst}));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
    CHECK_THAT(refused.error().message, Catch::Contains("version 2") && Catch::Contains("up to 1") &&
                                            Catch::Contains("nothing was changed") &&
                                            Catch::Contains("Use the release that wrote it, or a newer one"));
  }
  CHECK(bytes_of(name) == before);  // nothing of a server's
  CHECK(Database::open(name, DatabaseMode::kReadOnly, things({kFirst, kSecond})).ok());
}

TEST_CASE("an older file is read through an upgraded copy, and stays as it is") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  make_first(path);
  const std::string before = bytes_of(path);
  {
    Database reader = Database::open(path, DatabaseMode::kReadOnly, things({kFirst, kSecond})).value();
    CHECK(as_integer(reader.query("SELECT size FROM things").value().at(0).at(0)) == 4);
    CHECK_FALSE(reader.execute("INSERT INTO things (name) VALUES ('more')").ok());
    CHECK(reader.backup().empty());
  }
  CHECK(bytes_of(path) == before);
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
    CHECK(entry.path() == path);
  }
}

TEST_CASE("an older file that a release cannot upgrade is refused to readers, and stays as it is") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  make_first(path);
  const std::string before = bytes_of(path);
  CHECK_FALSE(Database::open(path, DatabaseMode::kReadOnly, things({kFirst, kSecond, kTwice})).ok());
  CHECK(bytes_of(path) == before);
}

TEST_CASE("who only reads older tables of a server is told what upgrades them") {
  const auto all = backends();
  if (std::ranges::find(all, Backend::kPostgres) == all.end()) return;
  const DatabasePlace place(Backend::kPostgres);
  make_first(place.name("d"));
  const auto refused = Database::open(place.name("d"), DatabaseMode::kReadOnly, things({kFirst, kSecond}));
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("'trimtab db merge " + place.name("d") + " FILE'"));
}

TEST_CASE("a database of another kind of ours is refused") {
  const TemporaryDirectory directory;
  make_first(directory.file("d"));
  CHECK_THAT(CostDatabase::open(directory.file("d"), OpenMode::kReadWrite).error().message,
             Catch::Contains("is not a cost database"));
}

TEST_CASE("a creation that fails leaves nothing that a later one would trip over") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CHECK_FALSE(Database::open(place.name("d"), DatabaseMode::kCreate, things({kFirst, kNoSql})).ok());
  CHECK(Database::open(place.name("d"), DatabaseMode::kCreate, things({kFirst})).ok());
  CHECK(Database::open(place.name("d"), DatabaseMode::kReadOnly, things({kFirst})).ok());
}

TEST_CASE("a database is made only where that is asked for") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  for (const DatabaseMode mode : {DatabaseMode::kReadWrite, DatabaseMode::kReadOnly}) {
    const auto refused = Database::open(place.name("d"), mode, things({kFirst}));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kUnavailable);
    CHECK_THAT(refused.error().message, Catch::StartsWith("there is no thing store at " + place.name("d")));
  }
}
