// A file that was too large to be checked when it was opened is checked while it is in use.

#include "store/content_check.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "../sample_costs.hpp"
#include "schema/storage/storage_watch.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const CheckedTable kPairs{"pairs", {"first", "second", "text"}};
const CheckedTable kNotes{"notes", {"text"}};

// A primary key of two columns, one that no checksum has, and none at all.
Migrations migrations(Bytes checked_up_to) {
  Migrations all{0x74724209,
                 "checked store",
                 {"CREATE TABLE pairs (first TEXT, second INTEGER, text TEXT, checksum INTEGER, PRIMARY KEY (first, "
                  "second)) WITHOUT ROWID; CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, checksum INTEGER); "
                  "CREATE TABLE loose (text TEXT, checksum INTEGER);"
                  "CREATE TABLE set_apart (place TEXT NOT NULL, reason TEXT NOT NULL, row_text TEXT NOT NULL)"}};
  all.checked = {kPairs, kNotes, {"loose", {"text"}}};
  all.checked_up_to = checked_up_to;
  return all;
}

void fill(Database& database, std::int64_t rows) {
  REQUIRE(database
              .transaction([&]() -> Status {
                for (std::int64_t i = 0; i < rows; ++i) {
                  const std::string text = "text " + std::to_string(i);
                  TRIMTAB_TRY_STATUS(database.execute(insertion(kPairs),
                                                      with_checksum({std::string(i % 2 == 0 ? "a" : "b"), i, text})));
                  TRIMTAB_TRY_STATUS(database.execute(insertion(kNotes), with_checksum({text})));
                  TRIMTAB_TRY_STATUS(
                      database.execute("INSERT INTO loose (text, checksum) VALUES (?, ?)", with_checksum({text})));
                }
                return {};
              })
              .ok());
}

int looks_until_done(Database& database) {
  for (int looks = 1; looks <= 10'000; ++looks) {
    if (!database.look_after().is_checking) return looks;
  }
  return 0;
}

}  // namespace

TEST_CASE("every row of a large file is read once beside the work, and damage is counted and leaves its sign",
          "[content_check]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("large.db");
  {
    Database database = Database::open(path, DatabaseMode::kCreate, migrations(0)).value();
    fill(database, 3000);
  }
  {
    Database database = Database::open(path, DatabaseMode::kReadWrite, migrations(0)).value();
    REQUIRE(looks_until_done(database) > 0);
    const DatabaseHealth health = database.look_after();
    CHECK(health.checked_rows == 9000);
    CHECK(health.unreadable == 0);
    CHECK_FALSE(std::filesystem::exists(path + ".suspect"));
  }
  Database database = Database::open(path, DatabaseMode::kReadWrite, migrations(0)).value();
  REQUIRE(database.execute("UPDATE pairs SET text = 'other' WHERE second = 1501").ok());
  REQUIRE(database.execute("UPDATE notes SET text = 7 WHERE id = 2000").ok());
  std::vector<std::string> said;
  StorageWatch watch([&](bool well, const std::string& line) { said.push_back((well ? "well " : "ill ") + line); });
  watch.add("large", [&] { return database.look_after(); });
  while (said.empty() && watch.all().front().health.checked_rows < 9000) watch.tick();
  REQUIRE(looks_until_done(database) > 0);
  CHECK(database.look_after().unreadable == 2);
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::StartsWith("ill ") && Catch::Contains("rows whose checksum is wrong"));
  CHECK(std::filesystem::exists(path + ".suspect"));
  // What is read again is no other damage.
  CHECK(database.query_checked(kPairs).value().damaged.size() == 1);
  CHECK(database.query_checked(kNotes, "WHERE id > 1990").value().damaged.size() == 1);
  CHECK(database.look_after().unreadable == 2);
}

TEST_CASE("a file that was checked when it was opened is not read again", "[content_check]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("small.db");
  Database database = Database::open(path, DatabaseMode::kCreate, migrations(Bytes{1} << 30)).value();
  fill(database, 10);
  CHECK_FALSE(database.look_after().is_checking);
  CHECK(database.look_after().checked_rows == 0);
}

TEST_CASE("a slice ends with its time, and begins again where it ended, with fewer rows where they take long",
          "[content_check]") {
  using namespace std::chrono_literals;
  ManualClock clock;
  std::vector<std::int64_t> asked;
  std::int64_t next = 0;
  const ContentCheck::Reader reader{[&](const std::string& sql, const Row& arguments) -> Result<Rows> {
                                      if (sql.find("pragma_table_info") != std::string::npos)
                                        return Rows{{std::string("id")}};
                                      asked.push_back(as_integer(arguments.back()));
                                      next += asked.back();
                                      if (next > 1000) return Rows{};
                                      return Rows{{next}};
                                    },
                                    [&](const std::string&, const Row& arguments) -> Result<CheckedRows> {
                                      clock.advance(1ms * asked.back());
                                      CHECK(as_integer(arguments.back()) == next);
                                      CheckedRows found;
                                      found.rows.resize(static_cast<std::size_t>(asked.back()));
                                      return found;
                                    }};
  ContentCheck check({kNotes});
  while (!check.done()) {
    const Nanoseconds before = clock.monotonic();
    check.step(reader, clock, 10ms);
    CHECK(clock.monotonic() - before < 20ms);
  }
  CHECK(check.rows() > 900);
}

TEST_CASE("a file that cannot be read on ends the check, and one that is locked does not", "[content_check]") {
  ManualClock clock;
  const bool damaged = GENERATE(true, false);
  const ContentCheck::Reader reader{
      [&](const std::string&, const Row&) -> Result<Rows> {
        return damaged ? bad_input("the file is damaged") : unavailable("locked");
      },
      [](const std::string&, const Row&) -> Result<CheckedRows> { return CheckedRows{}; }};
  ContentCheck check({kNotes});
  check.step(reader, clock, std::chrono::milliseconds(4));
  CHECK(check.done() == damaged);
}

TEST_CASE("a file that somebody wants checked is not called damaged by who only reads it", "[content_check]") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("asked.db");
  for (const Bytes limit : {Bytes{0}, Bytes{1} << 30}) {
    { (void)Database::open(path, DatabaseMode::kCreate, migrations(limit)).value(); }
    write_bytes(path + ".suspect", "");
    {
      Database reader = Database::open(path, DatabaseMode::kReadOnly, migrations(limit)).value();
      CHECK(reader.look_after().unreadable == 0);
      CHECK(reader.look_after().set_apart == 0);
    }
    CHECK(std::filesystem::exists(path + ".suspect"));  // for who can set apart
    { CHECK(Database::open(path, DatabaseMode::kReadWrite, migrations(limit)).value().look_after().unreadable == 0); }
    CHECK_FALSE(std::filesystem::exists(path + ".suspect"));
  }
}
