// Logs of killed processes of which something that was confirmed cannot be read any more.

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "schema/database.hpp"
#include "store/confirmed_log.hpp"

using namespace trimtab;
using namespace trimtab::test;
namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 3> kParts = {"", "-wal", "-confirmed"};

Migrations things() {
  Migrations all{0x74724210,
                 "thing store",
                 {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, checksum INTEGER NOT NULL DEFAULT 0);"
                  "CREATE TABLE set_apart (place TEXT NOT NULL, reason TEXT NOT NULL, row_text TEXT NOT NULL)"}};
  all.checked = {{"things", {"name"}}};
  all.after_salvage = {"INSERT INTO things (name, checksum) VALUES ('!', row_checksum('!'))"};
  return all;
}

Database open(const std::string& path, DatabaseMode mode = DatabaseMode::kCreate) {
  auto opened = Database::open(path, mode, things());
  INFO((opened.ok() ? "" : opened.error().message));
  REQUIRE(opened.ok());
  return std::move(opened).value();
}

void add(Database& database, char name, std::size_t size = 1) {
  REQUIRE(database
              .transaction([&] {
                return database.execute("INSERT INTO things (name, checksum) VALUES (?, ?)",
                                        with_checksum({std::string(size, name)}));
              })
              .ok());
}

std::string names_in(const Database& database) {
  std::string names;
  const Rows rows = database.query("SELECT name FROM things ORDER BY id").value();
  for (const Row& row : rows) names += as_text(row[0]).substr(0, 1);
  return names;
}

// What a killed process leaves: its locks are gone, and nothing was copied.
void leave(const std::string& path, const std::string& there) {
  for (const char* part : {"", "-wal", "-shm", "-confirmed", ".damaged", ".damaged-wal", ".damaged-2"}) {
    std::error_code ignored;
    fs::remove(there + part, ignored);
  }
  for (const char* part : kParts) {
    if (fs::exists(path + part)) fs::copy_file(path + part, there + part);
  }
}

void flip_bit_at(const std::string& path, std::size_t place) {
  std::string bytes = bytes_of(path);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  write_bytes(path, bytes);
}

}  // namespace

TEST_CASE("a killed process's log that was cut or has a flipped bit is read as far as it goes, and that is told",
          "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  Database database = open(path);
  for (const char name : std::string("abcdefgh")) add(database, name);
  const std::vector<std::function<void(const std::string& log)>> damages = {
      [](const std::string& log) { flip_bit_at(log, 500); },
      [](const std::string& log) { flip_bit_at(log, 20); },  // where it says which log it is
      [](const std::string& log) { flip_bit_at(log, fs::file_size(log) - 1); },
      [](const std::string& log) { fs::resize_file(log, fs::file_size(log) / 2); },
      [](const std::string& log) { fs::resize_file(log, 0); },
  };
  for (const auto& damage : damages) {
    leave(path, left);
    damage(left + "-wal");
    const std::string cut = bytes_of(left + "-wal");
    {
      const auto reader = Database::open(left, DatabaseMode::kReadOnly, things());
      Database known = open(path, DatabaseMode::kReadOnly);  // beside, one that is whole
      CHECK(known.look_after().set_apart == 0);
      if (reader.ok()) CHECK(names_in(*reader) != "abcdefgh");
    }
    leave(path, left);
    damage(left + "-wal");
    {
      Database found = open(left);
      CHECK(found.look_after().set_apart == 1);
      CHECK_THAT(as_text(found.query("SELECT reason FROM set_apart").value()[0][0]),
                 Catch::StartsWith("its log was cut or is damaged: of "));
      const std::string names = names_in(found);
      CHECK(names.size() < 9);
      CHECK(std::string("abcdefgh").starts_with(names.substr(0, names.size() - 1)));
      CHECK(names.back() == '!');  // what a kind of file does where something was set apart
      add(found, 'z');
    }
    CHECK(bytes_of(left + ".damaged-wal") == cut);
    CHECK(fs::exists(left + ".damaged"));
    Database again = open(left);
    CHECK(again.look_after().set_apart == 1);  // and is not told again
    CHECK(names_in(again).back() == 'z');
    CHECK_FALSE(fs::exists(left + ".damaged-2"));
  }
}

TEST_CASE("who only reads a log that was cut counts that something is missing, and changes nothing",
          "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string left = directory.file("left");
  {
    Database database = open(directory.file("d"));
    for (const char name : std::string("abcd")) add(database, name);
    leave(directory.file("d"), left);
  }
  fs::resize_file(left + "-wal", fs::file_size(left + "-wal") - 100);
  const std::string log = bytes_of(left + "-wal");
  for (int again = 0; again < 2; ++again) {
    Database reader = open(left, DatabaseMode::kReadOnly);
    CHECK(reader.look_after().set_apart == 1);
    CHECK(names_in(reader) == "abc");
  }
  CHECK(bytes_of(left + "-wal") == log);
  CHECK_FALSE(fs::exists(left + ".damaged"));
}

TEST_CASE("a log is kept beside what an operator has left of an earlier one", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string left = directory.file("left");
  {
    Database database = open(directory.file("d"));
    for (const char name : std::string("ab")) add(database, name);
    leave(directory.file("d"), left);
  }
  fs::resize_file(left + "-wal", fs::file_size(left + "-wal") - 100);
  write_bytes(left + ".damaged-wal", "an earlier one");
  Database found = open(left);
  CHECK(found.look_after().set_apart == 1);
  CHECK(bytes_of(left + ".damaged-wal") == "an earlier one");
  CHECK(fs::exists(left + ".damaged-2-wal"));
}

TEST_CASE("a log that cannot be kept as it is ends the start", "[confirmed_log]") {
  const TemporaryDirectory directory;
  // So long that the copy's own log can have no name.
  const std::string left = directory.file(std::string(245, 'l'));
  {
    Database database = open(directory.file("d"));
    add(database, 'a');
    leave(directory.file("d"), left);
  }
  fs::resize_file(left + "-wal", fs::file_size(left + "-wal") - 100);
  const auto refused = Database::open(left, DatabaseMode::kReadWrite, things());
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Catch::Contains("cannot be read whole, and no copy of both can be kept as"));
  CHECK_FALSE(fs::exists(left + ".damaged"));
}

TEST_CASE("nothing is said to be missing of a log that is whole, was copied or began anew, whatever was known of it",
          "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  Random random(7);
  std::string names;
  std::string known = "garbage";
  const auto add_some = [&](Database& database) {
    const char letter = static_cast<char>('a' + random.below(26));
    add(database, letter, 1 + random.below(20'000));
    names += letter;
  };
  for (int life = 0; life < 6; ++life) {
    Database database = open(path);
    for (int step = 0; step < 12; ++step) {
      add_some(database);
      if (random.below(4) == 0) REQUIRE(database.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
      if (random.below(6) == 0) REQUIRE(database.query("PRAGMA wal_checkpoint(TRUNCATE)").ok());
      if (random.below(4) == 0) {
        Database other = open(path);
        add_some(other);
        if (random.below(2) == 0) REQUIRE(other.query("PRAGMA wal_checkpoint(RESTART)").ok());
      }
      if (random.below(12) == 0) REQUIRE(database.query("VACUUM").ok());
      leave(path, left);
      if (random.below(2) == 0) write_bytes(left + "-confirmed", known);  // a power cut leaves an older one
      if (random.below(3) == 0) known = bytes_of(path + "-confirmed");
      Database found = open(left);
      REQUIRE(names_in(found) == names);
      REQUIRE(found.look_after().set_apart == 0);
    }
  }
  CHECK_FALSE(fs::exists(left + ".damaged"));
}

TEST_CASE("a backup is taken for what it is, though something was confirmed since", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  { add(*std::make_unique<Database>(open(path)), 'a'); }
  fs::copy_file(path, directory.file("backup"));
  {
    Database database = open(path);
    add(database, 'b');
    leave(path, left);
  }
  const auto put_back = [&](const std::string& there) {
    fs::copy_file(directory.file("backup"), there, fs::copy_options::overwrite_existing);
    {
      Database found = open(there);
      CHECK(names_in(found) == "a");
      CHECK(found.look_after().set_apart == 0);
      CHECK_FALSE(confirmed_log(there));
      leave(there, directory.file("begun"));  // killed before it has stored anything
    }
    CHECK(open(directory.file("begun")).look_after().set_apart == 0);
  };
  put_back(path);                              // after a stop
  fs::rename(left + "-wal", left + "-aside");  // after a kill, as the refusal says
  put_back(left);
}
