// A database whose file is removed, moved or replaced while it is open: what is confirmed is there for the next
// process.

#include "store/file_place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "schema/database.hpp"
#include "store/database_place.hpp"

using namespace trimtab;
using namespace trimtab::test;
namespace fs = std::filesystem;

namespace {

const Migrations kThings{0x74724201, "thing store", {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)"}};

Database create(const std::string& path, bool exclusive = false) {
  return Database::open(path, DatabaseMode::kCreate, kThings, exclusive).value();
}

Status add(Database& database, const std::string& name) {
  return database.execute("INSERT INTO things (name) VALUES (?)", {name});
}

Status add_in_transaction(Database& database, const std::string& name) {
  return database.transaction([&] { return add(database, name); });
}

// As the next process finds it.
std::string names_in(const std::string& path) {
  const auto database = Database::open(path, DatabaseMode::kReadWrite, kThings);
  if (!database.ok()) return database.error().message;
  std::string names;
  const Rows rows = database->query("SELECT name FROM things ORDER BY id").value();
  for (const Row& row : rows) names += as_text(row[0]);
  return names;
}

void remove_all(const std::string& path) {
  for (const char* part : {"", "-wal", "-shm"}) fs::remove(path + part);
}

}  // namespace

// Locks of this process on the file, as the kernel lists them.
std::size_t locks_on(const std::string& path) {
  struct stat found {};
  REQUIRE(::stat(path.c_str(), &found) == 0);
  std::ifstream locks("/proc/locks");
  const std::string inode = ":" + std::to_string(found.st_ino) + " ";
  std::size_t count = 0;
  for (std::string line; std::getline(locks, line);) count += line.find(inode) != std::string::npos ? 1 : 0;
  return count;
}

TEST_CASE("who opens a database once more in this process takes no lock of it away") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  Database database = create(path);
  REQUIRE(add(database, "a").ok());
  const std::size_t locks = locks_on(path);
  REQUIRE(locks > 0);
  CHECK(names_in(path) == "a");
  CHECK(locks_on(path) == locks);
}

TEST_CASE("a link or a pipe where the first page's copy lies is replaced, and what it names stays") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string other = directory.file("other");
  std::ofstream(other) << "kept";
  const std::string copy = path + ".first-page";
  fs::create_symlink(other, copy);
  REQUIRE(names_in((create(path), path)).empty());
  CHECK(std::string(std::istreambuf_iterator<char>(std::ifstream(other).rdbuf()), {}) == "kept");
  fs::remove(copy);
  REQUIRE(::mkfifo(copy.c_str(), 0600) == 0);
  CHECK(names_in(path).empty());
}

TEST_CASE("a database that was removed while it is open is written back before anything more is confirmed") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::vector<std::vector<std::string>> cases = {
      {""},         {"-wal"},         {"", "-wal"}, {"", "-wal", "-shm"},
      {"", "-shm"}, {"-wal", "-shm"}, {".lock"},    {"", "-wal", "-shm", ".lock"}};
  for (const auto& removed : cases) {
    for (const bool in_transaction : {false, true}) {
      remove_all(path);
      {
        Database database = create(path, true);
        REQUIRE(add(database, "a").ok());
        for (const std::string& part : removed) REQUIRE(fs::remove(path + part));
        const Status stored = in_transaction ? add_in_transaction(database, "b") : add(database, "b");
        CAPTURE(removed, in_transaction);
        REQUIRE(stored.ok());
        CHECK(names_in(path) == "ab");  // while it is open, as after a kill
        CHECK(database.look_after().written_back == (removed == std::vector<std::string>{".lock"} ? 0 : 1));
        REQUIRE(add(database, "c").ok());
        CHECK_FALSE(Database::open(path, DatabaseMode::kReadWrite, kThings, true).ok());  // its owner is still this one
      }
      CHECK(names_in(path) == "abc");
    }
  }
}

TEST_CASE("nothing is confirmed while the directory of an open database is gone") {
  const TemporaryDirectory directory;
  fs::create_directory(directory.file("state"));
  const std::string path = directory.file("state/d");
  Database database = create(path);
  REQUIRE(add(database, "a").ok());
  fs::remove_all(directory.file("state"));
  const Status refused = add(database, "b");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(refused.error().message, Catch::Contains("nothing is stored any more, since its directory was removed. "
                                                      "Make it again, and the file is written back there"));
  CHECK_FALSE(add_in_transaction(database, "b").ok());
  CHECK_FALSE(database.keep_in_place().ok());
  fs::create_directory(directory.file("state"));
  CHECK(database.keep_in_place().ok());
  CHECK(names_in(path) == "a");
  REQUIRE(add(database, "c").ok());
  CHECK(names_in(path) == "ac");
}

TEST_CASE("a database that another file has replaced stores nothing until that one is moved away") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  {
    Database other = create(directory.file("backup"));
    REQUIRE(add(other, "old").ok());
  }
  {
    Database database = create(path);
    REQUIRE(add(database, "a").ok());
    remove_all(path);
    fs::copy_file(directory.file("backup"), path);
    const Status refused = add_in_transaction(database, "b");
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, Catch::Contains("another file stands there than the one that is open"));
    CHECK(names_in(path) == "old");
    fs::rename(path, directory.file("theirs"));
    REQUIRE(add(database, "c").ok());
    CHECK(names_in(path) == "ac");
    fs::remove(path);
    fs::copy_file(directory.file("backup"), path);
    REQUIRE(add(database, "d").ok() == false);
  }
  CHECK(names_in(path) == "old");  // closing has left it alone
  CHECK(names_in(directory.file("theirs")) == "old");
}

TEST_CASE("a database that was moved away goes on where it is moved back") {
  const TemporaryDirectory directory;
  fs::create_directory(directory.file("state"));
  const std::string path = directory.file("state/d");
  Database database = create(path);
  REQUIRE(add(database, "a").ok());
  fs::rename(directory.file("state"), directory.file("elsewhere"));
  CHECK_FALSE(add(database, "b").ok());
  fs::rename(directory.file("elsewhere"), directory.file("state"));
  REQUIRE(add(database, "c").ok());
  CHECK(names_in(path) == "ac");
  CHECK(database.look_after().written_back == 0);
}

TEST_CASE("a file that is removed inside a transaction takes the transaction back") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  Database database = create(path);
  const Status refused = database.transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(add(database, "a"));
    remove_all(path);
    return {};
  });
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message,
             Catch::Contains("removed or replaced meanwhile; nothing of this change was stored"));
  REQUIRE(add(database, "b").ok());
  CHECK(names_in(path) == "b");
}

TEST_CASE("a copy that was rescued takes its place at the next start, and no older log with it") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  {
    Database database = create(path);
    REQUIRE(add(database, "a").ok());
    fs::copy_file(path + "-wal", directory.file("log"));
    REQUIRE(database.query("PRAGMA wal_checkpoint(TRUNCATE)").ok());
  }
  fs::rename(path, rescued_of(path));
  fs::rename(directory.file("log"), path + "-wal");
  CHECK(names_in(path).find("there is no") == std::string::npos);
  CHECK(names_in(path) == "a");
  CHECK_FALSE(fs::exists(rescued_of(path)));
}

TEST_CASE("no lock is written through another's link") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  std::ofstream(directory.file("other")) << "somebody else's";
  fs::create_symlink(directory.file("other"), path + ".lock");
  const auto lock = OwnerLock::acquire(path);
  REQUIRE_FALSE(lock.ok());
  CHECK_THAT(lock.error().message, Catch::Contains("d.lock is a link, and nothing is written through it"));
  std::ifstream other(directory.file("other"));
  CHECK(std::string(std::istreambuf_iterator<char>(other), {}) == "somebody else's");
}

TEST_CASE("a lock that is a file of somebody's, too, is held and not written") {
  const TemporaryDirectory directory;
  write_bytes(directory.file("precious"), "precious");
  fs::create_hard_link(directory.file("precious"), directory.file("d.lock"));
  const auto owner = OwnerLock::acquire(directory.file("d"));
  REQUIRE(owner.ok());
  CHECK(bytes_of(directory.file("precious")) == "precious");
  CHECK_FALSE(OwnerLock::acquire(directory.file("d")).ok());
}

TEST_CASE("a database behind a link has its log, its marks and its owner beside the file itself") {
  const TemporaryDirectory directory;
  fs::create_directory(directory.file("disk"));
  fs::create_directory(directory.file("other"));
  const std::string path = directory.file("disk/things.db");
  const std::string link = directory.file("things.db");
  fs::create_symlink("disk/things.db", link);
  fs::create_symlink("../things.db", directory.file("other/things.db"));
  {
    Database database = create(link, /*exclusive=*/true);
    REQUIRE(add(database, "a").ok());
    CHECK(database.name() == path);
    CHECK(fs::exists(path + "-wal"));
    CHECK(fs::exists(path + ".lock"));
    CHECK_FALSE(fs::exists(link + ".lock"));
    for (const std::string& name : {path, link, directory.file("other/things.db")}) {
      const auto second = Database::open(name, DatabaseMode::kCreate, kThings, /*exclusive=*/true);
      REQUIRE_FALSE(second.ok());
      CHECK_THAT(second.error().message, Catch::Contains("belongs to process"));
    }
    fs::copy_file(path + "-wal", path + "-kept");
  }
  CHECK(names_in(link) == "a");
  // As after a kill, and the disk is not there for one start: its log is not made away with.
  fs::rename(path + "-kept", path + "-wal");
  fs::rename(path, directory.file("away"));
  CHECK_FALSE(Database::open(link, DatabaseMode::kCreate, kThings, /*exclusive=*/true).ok());
  CHECK(fs::exists(path + "-wal"));
}

TEST_CASE("a database's name is never a URI of SQLite's") {
  CHECK(real_name("file::memory:", true).value() == "./file::memory:");
  CHECK(real_name("/a/file:x", true).value() == "/a/file:x");
}

TEST_CASE("a link that leads to itself, and another user's, are no database") {
  const TemporaryDirectory directory;
  fs::create_symlink("turns.db", directory.file("turns.db"));
  const auto turns = Database::open(directory.file("turns.db"), DatabaseMode::kCreate, kThings);
  REQUIRE_FALSE(turns.ok());
  CHECK_THAT(turns.error().message, Catch::Contains("leads to itself"));
  if (::geteuid() != 0) return;
  fs::create_symlink("things.db", directory.file("theirs.db"));
  REQUIRE(::lchown(directory.file("theirs.db").c_str(), 12345, 12345) == 0);
  const auto theirs = Database::open(directory.file("theirs.db"), DatabaseMode::kCreate, kThings);
  REQUIRE_FALSE(theirs.ok());
  CHECK_THAT(theirs.error().message, Catch::Contains("another user's link"));
  CHECK_FALSE(fs::exists(directory.file("things.db")));
}
