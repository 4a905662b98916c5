// Logs of killed processes of which something that was confirmed cannot be read any more.

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "schema/database.hpp"
#include "schema/storage/storage_watch.hpp"
#include "store/confirmed_log.hpp"

using namespace trimtab;
using namespace trimtab::test;
namespace fs = std::filesystem;

namespace {

const std::vector<const char*> kParts = {"", "-wal", "-confirmed"};

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

void flip_bit_at(const std::string& path, std::size_t place) {
  std::string bytes = bytes_of(path);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  write_bytes(path, bytes);
}

// What a killed process leaves: its locks are gone, and nothing was copied.
void leave(const std::string& path, const std::string& there, const std::vector<const char*>& parts = kParts) {
  for (const char* part : {"", "-wal", "-shm", "-confirmed", ".first-page", ".damaged", ".damaged-wal", ".damaged-2"}) {
    std::error_code ignored;
    fs::remove(there + part, ignored);
  }
  for (const char* part : parts) {
    if (fs::exists(path + part)) fs::copy_file(path + part, there + part);
  }
}

// Stores until SQLite has copied all of the log into the file, as it does behind a commit. Returns what was stored.
std::string add_until_copied(Database& database) {
  REQUIRE(database.query("PRAGMA wal_autocheckpoint = 12").ok());
  std::string names;
  for (bool is_copied = false; !is_copied;) {
    names += static_cast<char>('a' + names.size() % 26);
    add(database, names.back(), 700);
    const auto confirmed = confirmed_log(database.name());
    REQUIRE(confirmed);
    is_copied = confirmed->copied == confirmed->frames && confirmed->frames > 5;
  }
  return names;
}

constexpr std::size_t kFrame = 24 + 4096;

// In turn: a bit of each page of the log, its head, and its end at each page.
std::vector<std::function<void(const std::string& log)>> damages_of(std::size_t frames) {
  std::vector<std::function<void(const std::string& log)>> damages;
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const std::size_t begin = 32 + frame * kFrame;
    damages.emplace_back([begin](const std::string& log) { flip_bit_at(log, begin + 2000); });
    damages.emplace_back([begin](const std::string& log) { fs::resize_file(log, begin + 100); });
  }
  damages.emplace_back([](const std::string& log) { flip_bit_at(log, 20); });
  damages.emplace_back([](const std::string& log) { fs::resize_file(log, 0); });
  return damages;
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
  CHECK(found.look_after().kept_as == left + ".damaged-2");
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

TEST_CASE("a log that was copied into the file takes nothing from it, however it is damaged", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  Database database = open(path);
  const std::string names = add_until_copied(database);
  // Each alone tells that it was copied.
  for (const char* witness : {"-confirmed", "-shm"}) {
    for (const auto& damage : damages_of(confirmed_log(path)->frames)) {
      leave(path, left, {"", "-wal", witness});
      damage(left + "-wal");
      const std::string damaged = bytes_of(left + "-wal");
      CHECK(names_in(open(left, DatabaseMode::kReadOnly)) == names);
      CHECK(bytes_of(left + "-wal") == damaged);
      leave(path, left, {"", "-wal", witness});
      damage(left + "-wal");
      {
        Database found = open(left);
        CHECK(names_in(found).starts_with(names));
        if (found.look_after().set_apart > 0) {
          CHECK_THAT(as_text(found.query("SELECT reason FROM set_apart").value()[0][0]),
                     Catch::EndsWith("so the log is left out. Nothing is missing"));
          CHECK(bytes_of(found.look_after().kept_as + "-wal") == damaged);
        }
        add(found, 'z');
      }
      CHECK(names_in(open(left)).back() == 'z');
    }
  }
}

TEST_CASE("what was stored since a log was copied is missing alone, where the log is damaged before that",
          "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  Database database = open(path);
  for (const char name : std::string("abcdefgh")) add(database, name, 700);
  std::uint32_t copied = 0;
  const Database other = open(path, DatabaseMode::kReadOnly);
  const Status reading = other.snapshot([&]() -> Status {  // so that the log goes on
    REQUIRE(names_in(other) == "abcdefgh");
    REQUIRE(database.query("PRAGMA wal_checkpoint(PASSIVE)").ok());
    (void)database.look_after();
    copied = confirmed_log(path)->copied;
    add(database, 'x');
    return {};
  });
  REQUIRE(reading.ok());
  REQUIRE(confirmed_log(path)->frames > copied);
  REQUIRE(confirmed_log(path)->copied == copied);
  leave(path, left);
  flip_bit_at(left + "-wal", 32 + 3 * kFrame + 2000);
  const Database found = open(left);
  CHECK(names_in(found) == "abcdefgh!");
  CHECK_THAT(as_text(found.query("SELECT reason FROM set_apart").value()[0][0]),
             Catch::Contains("The file has " + std::to_string(copied) + " of them") &&
                 Catch::EndsWith("What was stored after those is missing"));
}

TEST_CASE("a damaged log is read as far as it goes beside an older copy of its file", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  std::string older;
  std::string first;
  {
    Database database = open(path);
    first = add_until_copied(database);
    older = bytes_of(path);
    (void)add_until_copied(database);
    leave(path, left);
  }
  write_bytes(left, older);
  flip_bit_at(left + "-wal", 32 + (confirmed_log(left)->frames - 2) * kFrame + 2000);
  Database found = open(left);
  CHECK(found.look_after().set_apart == 1);
  CHECK(names_in(found).size() > first.size() + 2);
}

TEST_CASE("a second kill does not make a copied log forgotten", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  const std::string again = directory.file("again");
  std::string names;
  {
    Database database = open(path);
    names = add_until_copied(database);
    leave(path, left);
  }
  {
    Database database = open(left);
    add(database, 'y');
    leave(left, again);
  }
  flip_bit_at(again + "-wal", 32 + 3 * kFrame + 2000);
  CHECK(names_in(open(again)).starts_with(names));
}

TEST_CASE("it is told while nobody would notice that a log is cut", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  fs::create_directory(path + "-confirmed");
  Database database = open(path);
  std::string said;
  StorageWatch watch([&](bool well, const std::string& line) { said += (well ? "+" : "-") + line + "\n"; });
  watch.add("things", [&] { return database.look_after(); });
  watch.tick();
  CHECK_THAT(said, Catch::StartsWith("-" + path + "-confirmed cannot be written"));
  add(database, 'a');
  fs::remove(path + "-confirmed");
  said.clear();
  watch.tick();
  CHECK_THAT(said, Catch::StartsWith("+" + path + "-confirmed is written again"));
  CHECK(confirmed_log(path));
  fs::remove(path + "-confirmed");  // while it is open
  add(database, 'b');
  CHECK(confirmed_log(path));
}

TEST_CASE("what else has the name of the confirmed file is not written through it", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string precious = directory.file("precious");
  write_bytes(precious, "precious");
  const bool is_hard = GENERATE(true, false);
  if (is_hard) fs::create_hard_link(precious, path + "-confirmed");
  if (!is_hard) fs::create_symlink(precious, path + "-confirmed");
  Database database = open(path);
  add(database, 'a');
  CHECK(bytes_of(precious) == "precious");
  CHECK(confirmed_log(path));
}

TEST_CASE("a file that lacks pages with its tables' texts has them again", "[confirmed_log]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("d");
  const std::string left = directory.file("left");
  Migrations many = things();
  for (int i = 0; i < 40; ++i) {
    many.steps.push_back("CREATE TABLE t" + std::to_string(i) + " (" + std::string(200, 'c') + " INTEGER)");
  }
  {
    Database database = Database::open(path, DatabaseMode::kCreate, many).value();
    add(database, 'a');
  }
  const std::string bytes = bytes_of(path);
  for (std::size_t cut = 1; cut < 8 * 4096; cut += 4095) {
    leave(path, left, {"", ".first-page"});
    write_bytes(left, bytes.substr(0, bytes.size() - cut));
    const auto found = Database::open(left, DatabaseMode::kReadWrite, many);
    INFO(cut << (found.ok() ? "" : found.error().message));
    REQUIRE(found.ok());
    CHECK(names_in(*found).starts_with("a"));
  }
}
