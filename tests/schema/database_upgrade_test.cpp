#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sample_costs.hpp"
#include "schema/database.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

Migrations things(std::vector<std::string> steps) {
  return {0x74724201, "thing store", std::move(steps)};
}

const std::string kFirst = "CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)";
const std::string kSecond = "ALTER TABLE things ADD COLUMN size INTEGER; UPDATE things SET size = length(name)";

void make_first(const std::string& path) {
  Database database = Database::open(path, DatabaseMode::kCreate, things({kFirst})).value();
  REQUIRE(database.execute("INSERT INTO things (name) VALUES ('four')").ok());
}

std::int64_t version(const Database& database) {
  return as_integer(database.query("PRAGMA user_version").value()[0][0]);
}

}  // namespace

TEST_CASE("an older database is upgraded, and a copy of the old one is kept") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  make_first(path);
  {
    const Database database = Database::open(path, DatabaseMode::kReadWrite, things({kFirst, kSecond})).value();
    CHECK(version(database) == 2);
    CHECK(as_integer(database.query("SELECT size FROM things").value().at(0).at(0)) == 4);
  }
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
  const TemporaryDirectory directory;
  make_first(directory.file("d"));
  const Migrations third = things({kFirst, kSecond, "CREATE TABLE more (x)"});
  const Database database = Database::open(directory.file("d"), DatabaseMode::kReadWrite, third).value();
  CHECK(version(database) == 3);
  CHECK(database.query("SELECT x FROM more").ok());
}

TEST_CASE("an upgrade that fails leaves the old database as it was") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  make_first(path);
  const auto failed =
      Database::open(path, DatabaseMode::kReadWrite, things({kFirst, kSecond, "CREATE TABLE things (x)"}));
  REQUIRE_FALSE(failed.ok());
  CHECK_THAT(failed.error().message, Catch::Contains("from version 1 to 3") && Catch::Contains("it is unchanged") &&
                                         Catch::Contains(path + ".v1.backup"));
  const Database database = Database::open(path, DatabaseMode::kReadWrite, things({kFirst})).value();
  CHECK(version(database) == 1);
  CHECK_FALSE(database.query("SELECT size FROM things").ok());
  // A corrected release then succeeds, the earlier copy notwithstanding.
  CHECK(Database::open(path, DatabaseMode::kReadWrite, things({kFirst, kSecond})).ok());
}

TEST_CASE("a newer database is refused by naming both versions and what to do, and stays as it is") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  REQUIRE(Database::open(path, DatabaseMode::kCreate, things({kFirst, kSecond})).ok());
  const std::string before = bytes_of(path);
  for (const DatabaseMode mode : {DatabaseMode::kCreate, DatabaseMode::kReadWrite, DatabaseMode::kReadOnly}) {
    const auto refused = Database::open(path, mode, things({kFirst}));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
    CHECK_THAT(refused.error().message, Catch::Contains("version 2") && Catch::Contains("up to 1") &&
                                            Catch::Contains("nothing was changed") &&
                                            Catch::Contains("Use the release that wrote it, or a newer one"));
  }
  CHECK(bytes_of(path) == before);
}

TEST_CASE("an older database that is open for reading is not upgraded") {
  const TemporaryDirectory directory;
  make_first(directory.file("d"));
  const auto refused = Database::open(directory.file("d"), DatabaseMode::kReadOnly, things({kFirst, kSecond}));
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("Open it once for writing"));
}

TEST_CASE("a database of another kind of ours is refused") {
  const TemporaryDirectory directory;
  make_first(directory.file("d"));
  CHECK_THAT(CostDatabase::open(directory.file("d"), OpenMode::kReadWrite).error().message,
             Catch::Contains("is not a cost database"));
}

TEST_CASE("a creation that fails leaves nothing that a later one would trip over") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  CHECK_FALSE(Database::open(path, DatabaseMode::kCreate, things({kFirst, "no SQL"})).ok());
  const Database database = Database::open(path, DatabaseMode::kCreate, things({kFirst})).value();
  CHECK(version(database) == 1);
}
