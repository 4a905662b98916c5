// Files of a database that another program has cut, overwritten or exchanged: while it is open nothing more is
// confirmed, and at the next start no log is read into another file than its own.

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "schema/database.hpp"

using namespace trimtab;
using namespace trimtab::test;
namespace fs = std::filesystem;

namespace {

const Migrations kThings{0x74724201,
                         "thing store",
                         {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE others (id INTEGER); "
                          "CREATE INDEX things_name ON things (name)"}};

Database create(const std::string& path) {
  return Database::open(path, DatabaseMode::kCreate, kThings, true).value();
}

Status add(Database& database, const std::string& name) {
  return database.transaction([&] { return database.execute("INSERT INTO things (name) VALUES (?)", {name}); });
}

// As the next process finds it, or why not.
std::string names_in(const std::string& path) {
  const auto database = Database::open(path, DatabaseMode::kReadWrite, kThings);
  if (!database.ok()) return database.error().message;
  std::string names;
  const Rows rows = database->query("SELECT name FROM things ORDER BY id").value();
  for (const Row& row : rows) names += as_text(row[0]).substr(0, 1);
  return names;
}

// What a killed process leaves: its locks are gone, and nothing was copied.
void leave(const std::string& path, const std::string& there) {
  for (const char* part : {"", "-wal"}) {
    fs::copy_file(path + part, there + part, fs::copy_options::overwrite_existing);
  }
}

// As the shell's .backup.
void back_up(const std::string& path, const std::string& to) {
  sqlite3* from = nullptr;
  sqlite3* there = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &from) == SQLITE_OK);
  REQUIRE(sqlite3_open(to.c_str(), &there) == SQLITE_OK);
  sqlite3_backup* const backup = sqlite3_backup_init(there, "main", from, "main");
  REQUIRE(sqlite3_backup_step(backup, -1) == SQLITE_DONE);
  REQUIRE(sqlite3_backup_finish(backup) == SQLITE_OK);
  sqlite3_close(there);
  sqlite3_close(from);
}

void pack_into(const std::string& path, const std::string& to) {
  sqlite3* from = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &from) == SQLITE_OK);
  REQUIRE(sqlite3_exec(from, ("VACUUM INTO '" + to + "'").c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(from);
}

void overwrite_end(const std::string& path, std::size_t count) {
  std::string bytes = bytes_of(path);
  bytes.replace(bytes.size() - count, count, count, 'x');
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("a log that is cut or overwritten while its database is open ends what is confirmed") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string log = path + "-wal";
  const std::vector<std::function<void()>> attacks = {
      [&] { fs::resize_file(log, 0); },
      [&] { fs::resize_file(log, 32 + 24 + 4096); },  // its first frame stays
      [&] { fs::resize_file(log, fs::file_size(log) - 1); },
      [&] { fs::resize_file(log, fs::file_size(log) - 4096); },  // what says which page the last one is stays
      [&] { overwrite_end(log, 4096); },
      [&] { overwrite_end(log, 1); },
      [&] { std::fstream(log, std::ios::in | std::ios::out | std::ios::binary) << std::string(32, 'x'); },
  };
  for (const auto& attack : attacks) {
    for (const char* part : {"", "-wal", "-shm"}) fs::remove(path + part);
    {
      Database database = create(path);
      REQUIRE(add(database, "a").ok());
      REQUIRE(database.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
      REQUIRE(add(database, "b").ok());
      attack();
      for (int again = 0; again < 2; ++again) {
        const Status refused = add(database, "c");
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().kind == ErrorKind::kUnavailable);
        CHECK_THAT(refused.error().message, Catch::Contains("nothing is stored any more, since its log " + log +
                                                            " was cut or overwritten by another program"));
      }
      CHECK_FALSE(database.execute("INSERT INTO things (name) VALUES ('d')").ok());
      CHECK_FALSE(database.look_after().out_of_place.empty());
    }
    CHECK_THAT(names_in(path), Catch::StartsWith("a"));  // what was in the file
    CHECK_THAT(names_in(path), !Catch::Contains("c"));
  }
}

TEST_CASE("a database that is cut or overwritten while it is open ends what is confirmed") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string copy = directory.file("copy");
  const auto overwrite = [&] { write_bytes(path, bytes_of(copy)); };
  const std::vector<std::function<void()>> attacks = {
      [&] { fs::resize_file(path, 0); },
      [&] { fs::resize_file(path, fs::file_size(path) - 4096); },
      [&] { std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << std::string(100, 'x'); },
      overwrite,
  };
  for (const bool copied_since : {false, true}) {
    for (const auto& attack : attacks) {
      for (const char* part : {"", "-wal", "-shm"}) fs::remove(path + part);
      fs::remove(copy);
      {
        Database database = create(path);
        REQUIRE(add(database, "a").ok());
        back_up(path, copy);
        REQUIRE(add(database, std::string(20'000, 'b')).ok());
        REQUIRE(database.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
        REQUIRE(add(database, "c").ok());
        if (copied_since) REQUIRE(database.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
        attack();
        const Status refused = add(database, "d");
        REQUIRE_FALSE(refused.ok());
        CHECK_THAT(refused.error().message, Catch::Contains("nothing is stored any more, since the file was cut or "
                                                            "overwritten by another program"));
        CHECK_FALSE(add(database, "e").ok());
        CHECK_FALSE(database.look_after().out_of_place.empty());
      }
      CAPTURE(names_in(path));
      CHECK(names_in(path).find("abcde") == std::string::npos);
    }
  }
}

namespace {

// While it is there, database files are opened so that `then` runs once: after a file's head was read.
struct AfterHead {
  AfterHead() {
    vfs = *plain;
    vfs.zName = "after-head";
    vfs.xOpen = [](sqlite3_vfs* own, const char* name, sqlite3_file* file, int flags, int* opened) {
      const int result = plain->xOpen(own, name, file, flags, opened);
      if (result != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0) return result;
      plain_read = file->pMethods->xRead;
      methods = *file->pMethods;
      methods.xRead = [](sqlite3_file* read, void* bytes, int count, sqlite3_int64 place) {
        const int done = plain_read(read, bytes, count, place);
        if (place == 0 && count == 100 && then) std::exchange(then, nullptr)();
        return done;
      };
      file->pMethods = &methods;
      return result;
    };
    REQUIRE(sqlite3_vfs_register(&vfs, 1) == SQLITE_OK);
  }
  AfterHead(const AfterHead&) = delete;
  AfterHead& operator=(const AfterHead&) = delete;
  ~AfterHead() {
    sqlite3_vfs_unregister(&vfs);
    sqlite3_vfs_register(plain, 1);
  }

  static inline sqlite3_vfs* const plain = sqlite3_vfs_find(nullptr);
  static inline sqlite3_vfs vfs{};
  static inline sqlite3_io_methods methods{};
  static inline int (*plain_read)(sqlite3_file*, void*, int, sqlite3_int64) = nullptr;
  static inline std::function<void()> then;
};

}  // namespace

TEST_CASE("a program that copies its log while another one looks has changed nothing") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const AfterHead head;
  Database database = create(path);
  REQUIRE(add(database, "a").ok());
  AfterHead::then = [&] {
    sqlite3* other = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &other) == SQLITE_OK);
    const char* const writes = "INSERT INTO things (name) VALUES ('b'); PRAGMA wal_checkpoint(PASSIVE)";
    CHECK(sqlite3_exec(other, writes, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(other);
  };
  REQUIRE(database.keep_in_place().ok());
  REQUIRE_FALSE(AfterHead::then);
  const Status added = add(database, "c");
  INFO((added.ok() ? "" : added.error().message));
  CHECK(added.ok());
  CHECK(names_in(path) == "abc");
}

TEST_CASE("a copy that is put over a database of a killed process takes nothing of its log") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  { REQUIRE(add(*std::make_unique<Database>(create(path)), "a").ok()); }
  fs::copy_file(path, directory.file("cold"));
  {
    Database database = create(path);
    REQUIRE(add(database, "b").ok());
    back_up(path, directory.file("backup"));
    pack_into(path, directory.file("packed"));
    fs::copy_file(path, directory.file("early"));
    REQUIRE(add(database, "c").ok());
    leave(path, left);
    CHECK(names_in(left) == "abc");
    for (const char* copy : {"cold", "backup", "packed"}) {
      CAPTURE(copy);
      leave(path, left);
      fs::copy_file(directory.file(copy), left, fs::copy_options::overwrite_existing);
      const std::string log = bytes_of(left + "-wal");
      CHECK_THAT(names_in(left), Catch::Contains("is the log of another file than " + left));
      CHECK(bytes_of(left + "-wal") == log);
      fs::rename(left + "-wal", left + "-aside");
      CHECK(names_in(left) == (copy == std::string("cold") ? "a" : "ab"));
    }
    // Also one of the file alone, where what the log holds was begun since.
    REQUIRE(database.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
    REQUIRE(add(database, "d").ok());
    leave(path, left);
    fs::copy_file(directory.file("early"), left, fs::copy_options::overwrite_existing);
    CHECK_THAT(names_in(left), Catch::Contains("is the log of another file than " + left));
    for (const bool gone : {false, true}) {
      leave(path, left);
      gone ? void(fs::remove(left)) : fs::resize_file(left, 0);
      const auto begun = Database::open(left, DatabaseMode::kCreate, kThings);
      REQUIRE_FALSE(begun.ok());
      CHECK_THAT(begun.error().message, Catch::Contains("is gone, or was cut to nothing, beside its log"));
      CHECK(fs::file_size(left + "-wal") > 0);
    }
    leave(path, left);
    CHECK(names_in(left) == "abcd");
  }
}

TEST_CASE("an older log of the same file is not read into what was closed since") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  {
    Database database = create(path);
    REQUIRE(add(database, "a").ok());
    leave(path, left);
    REQUIRE(add(database, "b").ok());
  }
  fs::copy_file(path, left, fs::copy_options::overwrite_existing);
  CHECK_THAT(names_in(left), Catch::Contains("is the log of another file than " + left));
  fs::rename(left + "-wal", left + "-aside");
  CHECK(names_in(left) == "ab");
}

TEST_CASE("a killed process's own log is read, whenever it was killed and whoever else has written") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  Random random(11);
  std::string names;
  const auto add_some = [&](Database& database) {
    const char letter = static_cast<char>('a' + random.below(26));
    REQUIRE(add(database, std::string(1 + random.below(20'000), letter)).ok());
    names += letter;
  };
  for (int life = 0; life < 6; ++life) {
    Database database = create(path);
    for (int step = 0; step < 12; ++step) {
      add_some(database);
      if (random.below(4) == 0) REQUIRE(database.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
      if (random.below(8) == 0) REQUIRE(database.query("PRAGMA wal_checkpoint(TRUNCATE)").ok());
      if (random.below(4) == 0) {
        Database other = Database::open(path, DatabaseMode::kReadWrite, kThings).value();
        add_some(other);
        if (random.below(2) == 0) REQUIRE(other.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
      }
      if (random.below(12) == 0) REQUIRE(database.query("VACUUM").ok());
      REQUIRE(database.keep_in_place().ok());
      for (const char* part : {"-wal", "-shm"}) fs::remove(left + part);
      leave(path, left);
      REQUIRE(names_in(left) == names);
    }
    CHECK(database.look_after().out_of_place.empty());
  }
}

TEST_CASE("an upgrade that is killed goes on, and its log is its file's") {
  Migrations newer = kThings;
  newer.steps.emplace_back("ALTER TABLE things ADD COLUMN more TEXT NOT NULL DEFAULT ''");
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  { REQUIRE(add(*std::make_unique<Database>(create(path)), "a").ok()); }
  for (const bool exclusive : {false, true}) {
    fs::copy_file(path, directory.file("e"), fs::copy_options::overwrite_existing);
    const Database upgraded = Database::open(directory.file("e"), DatabaseMode::kReadWrite, newer, exclusive).value();
    leave(directory.file("e"), directory.file("left"));
    const auto again = Database::open(directory.file("left"), DatabaseMode::kReadWrite, newer);
    INFO((again.ok() ? "" : again.error().message));
    REQUIRE(again.ok());
    CHECK(again->query("SELECT name, more FROM things").value().size() == 1);
  }
}

TEST_CASE("a log that is cut while a change is made ends the change, and nothing of it is stored") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string log = path + "-wal";
  {
    Database database = create(path);
    REQUIRE(add(database, "a").ok());
    REQUIRE(add(database, "b").ok());
    const Status stored = database.transaction([&]() -> Status {
      fs::resize_file(log, fs::file_size(log) - 10);
      return database.execute("INSERT INTO things (name) VALUES ('c')");
    });
    REQUIRE_FALSE(stored.ok());
    CHECK_FALSE(add(database, "d").ok());
  }
  CHECK(names_in(path) == "a");
}

TEST_CASE("a database that was cut to nothing after a stop is not begun anew, and one that was removed is") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  const auto attempt = [&] {
    const auto opened = CostDatabase::open(path, OpenMode::kCreate);
    return opened.ok() ? "" : opened.error().message;
  };
  { (void)open_costs(path); }
  fs::resize_file(path, 0);
  CHECK_THAT(attempt(), Catch::StartsWith(path + " was a cost database") &&
                            Catch::Contains("the file is empty (to begin with nothing, remove it)"));
  CHECK(fs::file_size(path) == 0);
  fs::remove(path);
  CHECK(attempt().empty());
  // What tells of the removed one must not speak against one whose creation is cut off.
  fs::resize_file(path, 0);
  write_bytes(path + ".first-page", "half");
  CHECK(attempt().empty());
}

TEST_CASE("a database whose first page is garbage is called damaged, and not another program's") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  { (void)open_costs(path); }
  const std::string whole = bytes_of(path);
  for (const std::size_t place : {std::size_t{0}, std::size_t{68}}) {
    std::string bytes = whole;
    bytes.replace(place, 4000, 4000, 'x');
    write_bytes(path, bytes);
    const auto refused = CostDatabase::open(path, OpenMode::kCreate);
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, Catch::StartsWith(path + " was a cost database, and is damaged or another "
                                                                 "file now") &&
                                            Catch::EndsWith("Put a backup in its place"));
  }
}

TEST_CASE("a database of another kind of ours is not called a damaged one") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  { (void)open_costs(path); }
  for (const DatabaseMode mode : {DatabaseMode::kReadOnly, DatabaseMode::kReadWrite}) {
    const auto refused = Database::open(path, mode, kThings);
    REQUIRE_FALSE(refused.ok());
    CHECK_THAT(refused.error().message, Catch::StartsWith(path + " is not a thing store: the SQLite file belongs to"));
  }
}
