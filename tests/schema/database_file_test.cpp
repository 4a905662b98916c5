// What is said of databases in files alone.

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "../small_disk.hpp"
#include "sample_costs.hpp"
#include "schema/database.hpp"
#include "skipping.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const Migrations kThings{0x74724201, "thing store", {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)"}};

Database create(const std::string& path) {
  return Database::open(path, DatabaseMode::kCreate, kThings).value();
}

std::string refusal(const std::string& path, DatabaseMode mode = DatabaseMode::kReadWrite) {
  const auto database = Database::open(path, mode, kThings);
  return database.ok() ? "" : database.error().message;
}

std::int64_t count(const Database& database) {
  return as_integer(database.query("SELECT count(*) FROM things").value().at(0).at(0));
}

// Another application's file: made as one of ours, then given no application id, and the journal mode asked for.
void make_foreign(const std::string& path, bool wal) {
  REQUIRE(Database::open(path, DatabaseMode::kCreate, {1, "foreign", {"CREATE TABLE theirs (x)"}}).ok());
  std::string bytes = bytes_of(path);
  bytes.replace(18, 2, 2, wal ? '\2' : '\1');
  bytes.replace(68, 4, 4, '\0');
  write_bytes(path, bytes);
}

}  // namespace

TEST_CASE("writes are synchronous and journalled ahead") {
  const TemporaryDirectory directory;
  const Database database = create(directory.file("d"));
  CHECK(as_text(database.query("PRAGMA journal_mode").value()[0][0]) == "wal");
  CHECK(as_integer(database.query("PRAGMA synchronous").value()[0][0]) == 2);
  CHECK(as_integer(database.query("PRAGMA foreign_keys").value()[0][0]) == 1);
}

TEST_CASE("a database is created only where that is asked for") {
  const TemporaryDirectory directory;
  CHECK_THAT(refusal(directory.file("d")), Catch::StartsWith("there is no thing store at "));
  CHECK_THAT(refusal(directory.file("d"), DatabaseMode::kReadOnly), Catch::StartsWith("there is no thing store at "));
  CHECK_FALSE(std::filesystem::exists(directory.file("d")));
  CHECK_THAT(refusal(directory.file("no/such/d"), DatabaseMode::kCreate), Catch::Contains("No such file or directory"));
}

TEST_CASE("a pipe, a link or a folder in the place of a database's log or journal is refused, and not waited for") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  { (void)create(path); }
  for (const char* end : {"-wal", "-shm", "-journal"}) {
    for (const std::string& name : {path, directory.file("new")}) {
      const std::string beside = name + end;
      for (const int kind : {0, 1, 2}) {
        if (kind == 0) REQUIRE(::mkfifo(beside.c_str(), 0600) == 0);
        if (kind == 1) std::filesystem::create_symlink(directory.file("elsewhere"), beside);
        if (kind == 2) std::filesystem::create_directory(beside);
        for (const DatabaseMode mode : {DatabaseMode::kCreate, DatabaseMode::kReadWrite, DatabaseMode::kReadOnly}) {
          CHECK_THAT(refusal(name, mode), Catch::StartsWith(beside + " must be a regular file"));
        }
        std::filesystem::remove(beside);
      }
    }
  }
  CHECK(refusal(path).empty());
}

TEST_CASE("a database that would be kept nowhere is refused") {
  CHECK_THAT(refusal(":memory:", DatabaseMode::kCreate), Catch::Contains("must be a file, and :memory: is none"));
  CHECK_THAT(refusal("", DatabaseMode::kCreate), Catch::Contains("must be a file, and an empty name is none"));
}

TEST_CASE("a file that is not a database is refused and stays as it is") {
  const TemporaryDirectory directory;
  for (const std::string& bytes : {std::string("hello"), std::string(5000, 'x'), std::string(5000, '\0')}) {
    write_bytes(directory.file("d"), bytes);
    for (const DatabaseMode mode : {DatabaseMode::kCreate, DatabaseMode::kReadWrite, DatabaseMode::kReadOnly}) {
      CHECK_THAT(refusal(directory.file("d"), mode), Catch::Contains("is not a thing store") &&
                                                         Catch::Contains("not an SQLite database") &&
                                                         Catch::Contains("nothing was changed"));
    }
    CHECK(bytes_of(directory.file("d")) == bytes);
  }
  CHECK_THAT(refusal(directory.path(), DatabaseMode::kCreate), Catch::Contains("not a regular file"));
}

TEST_CASE("another application's SQLite file is refused and stays as it is, without new files beside it") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const bool wal = GENERATE(false, true);
  make_foreign(path, wal);
  const std::string before = bytes_of(path);
  for (const DatabaseMode mode : {DatabaseMode::kCreate, DatabaseMode::kReadWrite, DatabaseMode::kReadOnly}) {
    CHECK_THAT(refusal(path, mode), Catch::Contains("belongs to another application"));
  }
  CHECK(bytes_of(path) == before);
  CHECK_FALSE(std::filesystem::exists(path + "-wal"));
  CHECK_FALSE(std::filesystem::exists(path + "-shm"));
}

TEST_CASE("an empty file becomes a database only where creating is asked for") {
  const TemporaryDirectory directory;
  write_bytes(directory.file("d"), "");
  CHECK_THAT(refusal(directory.file("d")), Catch::Contains("the file is empty"));
  CHECK(refusal(directory.file("d"), DatabaseMode::kCreate).empty());
  CHECK(refusal(directory.file("d")).empty());
}

TEST_CASE("a damaged database is refused or reports the damage, and never crashes") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  {
    Database database = create(path);
    for (int i = 0; i < 500; ++i) {
      REQUIRE(database.execute("INSERT INTO things (name) VALUES (?)", {std::string(100, 'a')}).ok());
    }
  }
  std::string bytes = bytes_of(path);
  for (std::size_t i = 4096; i < bytes.size(); i += 7) bytes[i] = '\x55';
  write_bytes(path, bytes);
  const auto database = Database::open(path, DatabaseMode::kReadWrite, kThings);
  if (database.ok()) {
    const auto rows = database->query("SELECT name FROM things");
    REQUIRE_FALSE(rows.ok());
    CHECK_THAT(rows.error().message, Catch::Contains("damaged") && Catch::Contains("backup"));
  } else {
    CHECK_THAT(database.error().message, Catch::Contains("damaged"));
  }
}

TEST_CASE("a file that has our id and other tables is refused with the difference, and stays as it is") {
  const std::string ours = kThings.steps[0];
  const std::vector<std::pair<std::string, std::string>> others = {
      {"CREATE TABLE others (id INTEGER PRIMARY KEY, name TEXT)", "it has no table things"},
      {"CREATE VIEW things AS SELECT 1 AS id, 'a' AS name", "it has no table things"},
      {"CREATE VIRTUAL TABLE things USING fts5 (id, name)", "it has no table things"},
      {"CREATE TABLE things (id INTEGER PRIMARY KEY, name)",
       "its table things has the columns (id INTEGER KEY 1, name ), not (id INTEGER KEY 1, name TEXT)"},
      {"CREATE TABLE things (id INTEGER, name TEXT)", "its table things has the columns"},
      {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL)", "its table things has the columns"},
      {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, extra TEXT)", "its table things has the columns"},
      {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT AS (hex(id)))", "its table things has the columns"},
      {ours + "; CREATE TRIGGER t AFTER INSERT ON things BEGIN DELETE FROM things; END", "its trigger t is not ours"}};
  for (const auto& [tables, difference] : others) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("d");
    REQUIRE(Database::open(path, DatabaseMode::kCreate, {kThings.application_id, "thing store", {tables}}).ok());
    const std::string bytes = bytes_of(path);
    for (const DatabaseMode mode : {DatabaseMode::kCreate, DatabaseMode::kReadWrite, DatabaseMode::kReadOnly}) {
      CHECK_THAT(refusal(path, mode),
                 Catch::Contains("says that it is a thing store of version 1, but " + difference) &&
                     Catch::Contains("nothing was changed"));
    }
    CHECK(bytes_of(path) == bytes);
  }
}

TEST_CASE("tables and indexes beside ours are tolerated") {
  const TemporaryDirectory directory;
  const std::string tables = kThings.steps[0] + "; CREATE TABLE notes (x); CREATE INDEX by_name ON things (name)";
  REQUIRE(Database::open(directory.file("d"), DatabaseMode::kCreate, {kThings.application_id, "", {tables}}).ok());
  CHECK(refusal(directory.file("d")).empty());
}

TEST_CASE("a value of another type than its column's is damage, and the database stays usable") {
  const TemporaryDirectory directory;
  const Migrations numbers{0x74724202, "numbers", {"CREATE TABLE numbers (i INTEGER, r REAL, t TEXT)"}};
  auto database = Database::open(directory.file("d"), DatabaseMode::kCreate, numbers).value();
  for (const char* values : {"'one', 1, 'a'", "1.5, 1, 'a'", "NULL, 1, 'a'", "1, 'one', 'a'", "1, 1, NULL"}) {
    REQUIRE(database.execute("DELETE FROM numbers").ok());
    REQUIRE(database.execute(std::string("INSERT INTO numbers VALUES (") + values + ")").ok());
    const auto rows = database.query("SELECT i, r, t FROM numbers");
    REQUIRE_FALSE(rows.ok());
    CHECK_THAT(rows.error().message,
               Catch::Contains("the file is damaged: column ") && Catch::Contains(" has a value of another type"));
  }
  REQUIRE(database.execute("UPDATE numbers SET i = 1, r = 2, t = x'61'").ok());
  const auto rows = database.query("SELECT i, r, t FROM numbers").value();
  CHECK(as_integer(rows[0][0]) == 1);
  CHECK(as_real(rows[0][1]) == 2);
  CHECK(as_text(rows[0][2]) == "a");
}

TEST_CASE("a file locked by another program is refused after a while, and nothing is stored") {
  const TemporaryDirectory directory;
  Database database = create(directory.file("d"));
  // Not the five seconds that people get: the wording is what is tested.
  REQUIRE(database.execute("PRAGMA busy_timeout = 1").ok());
  Database other = Database::open(directory.file("d"), DatabaseMode::kReadWrite, kThings).value();
  const Status inside = other.transaction([&]() -> Status {
    const Status status = database.execute("INSERT INTO things (name) VALUES ('a')");
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::kUnavailable);
    CHECK_THAT(status.error().message,
               Catch::Contains("locked") && Catch::Contains("nothing of this change was stored"));
    return {};
  });
  REQUIRE(inside.ok());
  CHECK(database.execute("INSERT INTO things (name) VALUES ('a')").ok());
  CHECK(count(database) == 1);
}

TEST_CASE("a read-only place is refused for writing and can be read", "[needs:root]") {
  const TemporaryDirectory directory;
  const SmallDisk disk(directory.file("mount"));
  if (!disk.mounted()) return;
  const std::string path = disk.file("d?x%41#");
  { CHECK(create(path).execute("INSERT INTO things (name) VALUES ('a')").ok()); }
  REQUIRE(disk.make_read_only());
  CHECK_THAT(refusal(path), Catch::Contains("Read-only file system") && Catch::Contains("give another path"));
  CHECK_THAT(refusal(disk.file("new"), DatabaseMode::kCreate), Catch::Contains("Read-only file system"));
  const auto reader = Database::open(path, DatabaseMode::kReadOnly, kThings);
  INFO((reader.ok() ? "" : reader.error().message));
  CHECK((reader.ok() && count(*reader) == 1));
}

TEST_CASE("a file without permissions is refused with the reason", "[needs:unprivileged]") {
  if (geteuid() == 0) {
    return trimtab::test::skip("nothing is forbidden to root");
  }
  const TemporaryDirectory directory;
  (void)create(directory.file("d"));
  std::filesystem::permissions(directory.file("d"), std::filesystem::perms::owner_read);
  CHECK_THAT(refusal(directory.file("d")), Catch::Contains("Permission denied"));
  CHECK(refusal(directory.file("d"), DatabaseMode::kReadOnly).empty());
}

TEST_CASE("a statement's arguments do not stay for its next run") {
  const TemporaryDirectory directory;
  Database database = create(directory.file("d"));
  REQUIRE(database.query("SELECT ?", {std::int64_t{1}}).ok());
  CHECK(std::holds_alternative<std::monostate>(database.query("SELECT ?").value()[0][0]));
}

TEST_CASE("reading beside the log of a writer that was killed leaves both files as they are") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Database writer = create(path);
    _exit(writer.execute("INSERT INTO things (name) VALUES ('a')").ok() ? 0 : 1);  // nothing closes the file
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  const std::string file = bytes_of(path);
  const std::string log = bytes_of(path + "-wal");
  REQUIRE_FALSE(log.empty());
  CHECK(count(Database::open(path, DatabaseMode::kReadOnly, kThings).value()) == 1);
  const Migrations others{0x74724299, "other store", {"CREATE TABLE others (id INTEGER)"}};
  CHECK_FALSE(Database::open(path, DatabaseMode::kCreate, others).ok());
  CHECK(bytes_of(path) == file);
  CHECK(bytes_of(path + "-wal") == log);
  CHECK(count(Database::open(path, DatabaseMode::kReadWrite, kThings).value()) == 1);
  CHECK_FALSE(std::filesystem::exists(path + "-wal"));
}

TEST_CASE("an owner that is ending is waited for") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto owner = Database::open(path, DatabaseMode::kCreate, kThings, true);
    // Its files outlive it for a while, in another process that has inherited them.
    if (!owner.ok() || fork() != 0) _exit(owner.ok() ? 0 : 1);
    char go = 0;
    _exit(read(ends[0], &go, 1) == 1 ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  bool let_go = false;
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    let_go = write(ends[1], "g", 1) == 1;
  });
  CHECK(Database::open(path, DatabaseMode::kCreate, kThings, true).ok());
  holder.join();
  CHECK(let_go);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("the lock of an owner that was killed is not stale") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto owner = Database::open(path, DatabaseMode::kCreate, kThings, true);
    const char answer = owner.ok() ? 'y' : 'n';
    if (write(ends[1], &answer, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char answer = 0;
  REQUIRE(read(ends[0], &answer, 1) == 1);
  CHECK(answer == 'y');
  CHECK_THAT(Database::open(path, DatabaseMode::kCreate, kThings, true).error().message,
             Catch::Contains("belongs to process " + std::to_string(child)));
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(Database::open(path, DatabaseMode::kCreate, kThings, true).ok());
  close(ends[0]);
  close(ends[1]);
}
