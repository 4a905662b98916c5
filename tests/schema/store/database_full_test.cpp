#include <filesystem>
#include <string>

#include <catch2/catch.hpp>

#include "../../small_disk.hpp"
#include "../sample_costs.hpp"
#include "schema/database.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const Migrations kThings{0x74724201, "thing store", {"CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)"}};

std::int64_t count(const Database& database) {
  return as_integer(database.query("SELECT count(*) FROM things").value().at(0).at(0));
}

}  // namespace

TEST_CASE("a transaction that finds the disk full stores nothing, and the database stays usable") {
  const TemporaryDirectory directory;
  Database database = Database::open(directory.file("d"), DatabaseMode::kCreate, kThings).value();
  REQUIRE(database.execute("INSERT INTO things (name) VALUES ('kept')").ok());
  REQUIRE(database.execute("PRAGMA max_page_count = 20").ok());
  int inserted = 0;
  const Status status = database.transaction([&]() -> Status {
    for (;; ++inserted) {
      TRIMTAB_TRY_STATUS(database.execute("INSERT INTO things (name) VALUES (?)", {std::string(1000, 'x')}));
    }
  });
  REQUIRE_FALSE(status.ok());
  CHECK(inserted > 10);
  CHECK(status.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(status.error().message, Catch::Contains("the disk is full") && Catch::Contains("nothing of this change") &&
                                         Catch::Contains(directory.file("d")));
  CHECK(count(database) == 1);
  REQUIRE(database.execute("PRAGMA max_page_count = 2000").ok());
  CHECK(database.execute("INSERT INTO things (name) VALUES ('more')").ok());
  CHECK(count(database) == 2);
}

TEST_CASE("what follows a failure inside a transaction is not stored on its own") {
  const TemporaryDirectory directory;
  Database database = Database::open(directory.file("d"), DatabaseMode::kCreate, kThings).value();
  REQUIRE(database.execute("PRAGMA max_page_count = 20").ok());
  const Status status = database.transaction([&]() -> Status {
    Status first;
    while (first.ok()) first = database.execute("INSERT INTO things (name) VALUES (?)", {std::string(1000, 'x')});
    // A body that ignores the failure: its next statement must not slip out of the transaction.
    (void)database.execute("DELETE FROM things WHERE id > 3");
    (void)database.execute("INSERT INTO things (name) VALUES ('late')");
    return first;
  });
  REQUIRE_FALSE(status.ok());
  CHECK(count(database) == 0);
}

TEST_CASE("batches that were stored before the disk was full are there afterwards", "[needs:root]") {
  const TemporaryDirectory directory;
  const SmallDisk disk(directory.file("disk"));
  if (!disk.mounted()) return;
  const std::string path = directory.file("disk/c.db");
  const std::string fingerprint = hash(sample_fingerprint());
  Random random(9);
  std::uint64_t stored = 0;
  {
    CostDatabase database = CostDatabase::open(path, OpenMode::kCreate).value();
    Result<bool> added = true;
    while (added.ok() && stored < 10000) {
      added = database.add_batch({"agent", stored + 1}, sample_fingerprint(), "active",
                                 {forward_cost("op" + std::to_string(random.next()), {1}), forward_cost("a", {7})});
      if (added.ok()) ++stored;
    }
    REQUIRE_FALSE(added.ok());
    CHECK(added.error().kind == ErrorKind::kUnavailable);
    CHECK_THAT(added.error().message, Catch::Contains("disk"));
    CHECK(stored > 5);
    CHECK(find_cost(database, fingerprint, forward_key("a"))->statistics.count() == stored);
  }
  const auto reopened = CostDatabase::open(path, OpenMode::kReadOnly);
  INFO((reopened.ok() ? "" : reopened.error().message));
  REQUIRE(reopened.ok());
  CHECK(find_cost(*reopened, fingerprint, forward_key("a"))->statistics.count() == stored);
}

TEST_CASE("a full disk lets no database be created, and a later attempt succeeds", "[needs:root]") {
  const TemporaryDirectory directory;
  const SmallDisk disk(directory.file("disk"));
  if (!disk.mounted()) return;
  disk.fill();
  const auto refused = CostDatabase::open(directory.file("disk/c.db"), OpenMode::kCreate);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kUnavailable);
  disk.free();
  CHECK(CostDatabase::open(directory.file("disk/c.db"), OpenMode::kCreate).ok());
}

TEST_CASE("a cost database in a read-only place is refused for writing, loses nothing and can be read",
          "[needs:root]") {
  const TemporaryDirectory directory;
  const SmallDisk disk(directory.file("disk"));
  if (!disk.mounted()) return;
  const std::string path = disk.file("c.db");
  {
    CostDatabase database = CostDatabase::open(path, OpenMode::kCreate).value();
    REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value());
  }
  REQUIRE(disk.make_read_only());
  const std::string before = bytes_of(path);
  for (const OpenMode mode : {OpenMode::kCreate, OpenMode::kReadWrite}) {
    const auto refused = CostDatabase::open(path, mode);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kUnavailable);
    CHECK_THAT(refused.error().message, Catch::Contains(path) && Catch::Contains("Read-only file system") &&
                                            Catch::Contains("give another path"));
  }
  const auto reader = CostDatabase::open(path, OpenMode::kReadOnly);
  REQUIRE(reader.ok());
  CHECK(find_cost(*reader, hash(sample_fingerprint()), forward_key("a"))->statistics == statistics_of({7}));
  CHECK(bytes_of(path) == before);
}
