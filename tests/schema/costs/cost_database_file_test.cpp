// What is said of cost databases in files alone.

#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "costs/cost_tables.hpp"
#include "schema/cost_database.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const std::string kHash = hash(sample_fingerprint());

// With one cost, of kOld.
void write_first_release(const std::string& path) {
  Migrations first = cost_tables::migrations();
  first.steps.resize(1);
  first.checked.clear();
  Database old = Database::open(path, DatabaseMode::kCreate, first).value();
  const std::string fingerprint = to_json(sample_fingerprint());
  const std::string statistics = statistics_of({10, 20}).encode();
  REQUIRE(old.execute("INSERT INTO fingerprints VALUES (?, ?)", {kHash, fingerprint}).ok());
  REQUIRE(old.execute("INSERT INTO origins VALUES (3, 'agent', 0)").ok());
  REQUIRE(old.execute("INSERT INTO batches VALUES (3, 1)").ok());
  REQUIRE(old.execute("INSERT INTO cost_keys VALUES (7, 'overlap_computation', 'all_reduce', '', 0, 1, 'default', "
                      "1024, 2, 'intra_node')")
              .ok());
  REQUIRE(old.execute("INSERT INTO costs VALUES (?, 7, 'active', 3, 1, ?)", {kHash, statistics}).ok());
}

const CostKey kOld{CostKind::kOverlapComputation, "all_reduce", "", 0, 1, "default", 1024, 2, "intra_node"};

}  // namespace

TEST_CASE("folding keeps the number of stored rows bounded") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  CostDatabase database = open_costs(path);
  for (std::uint64_t number = 1; number <= 640; ++number) {
    REQUIRE(database
                .add_batch({"agent", number}, sample_fingerprint(), "active",
                           {forward_cost("a", {1}), forward_cost("b", {1})})
                .value());
  }
  // Ten times 64 batches of two costs: unfolded they would take 1280 rows of about 100 bytes.
  CHECK(bytes_of(path).size() + bytes_of(path + "-wal").size() < 6'000'000);
  CostDatabase copy = open_costs(directory.file("copy.db"));
  CHECK(copy.merge_from(path).value().batches == 640);
  CHECK(bytes_of(directory.file("copy.db")).size() < 80'000);
  CHECK(contents(copy) == contents(database));
}

TEST_CASE("what is free in a file does not count as used, though the file stays as large") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  CostDatabase database = open_costs(path);
  const Bytes empty = database.used_bytes().value().value();
  CHECK(empty > 0);
  CHECK(empty < 200'000);
  REQUIRE(database.put_fact(kHash, "large", std::string(1'000'000, 'x')).ok());
  const Bytes full = database.used_bytes().value().value();
  CHECK(full >= empty + 1'000'000);
  CHECK(full < empty + 1'100'000);
  {
    auto raw = Database::open(path, DatabaseMode::kReadWrite, cost_tables::migrations(), false).value();
    REQUIRE(raw.execute("DELETE FROM facts").ok());
  }
  CHECK(database.used_bytes().value().value() < empty + 50'000);
}

TEST_CASE("reading leaves no files beside the database, and a reader may not write") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  {
    REQUIRE(open_costs(path).add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value());
  }
  {
    CostDatabase reader = open_costs(path, OpenMode::kReadOnly);
    CHECK(cost_count(reader) == 1);
    CHECK_FALSE(reader.put_fact(kHash, "calibration", "{}").ok());
  }
  CHECK_FALSE(std::filesystem::exists(path + "-wal"));
  CHECK_FALSE(std::filesystem::exists(path + "-shm"));
}

TEST_CASE("a cost database of the first release is taken over whole, and then tells channels and classes apart") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  write_first_release(path);
  CostDatabase database = open_costs(path, OpenMode::kReadWrite);
  const CostKey& key = kOld;
  CHECK(find_cost(database, kHash, key)->statistics == statistics_of({10, 20}));
  CHECK_FALSE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {{key, statistics_of({5})}}).value());
  CostKey narrow = key;
  narrow.channels = 8;
  narrow.kernel_class = "gemm";
  narrow.algorithm = "ring";
  narrow.protocol = "simple";
  CHECK(database.add_batch({"agent", 2}, sample_fingerprint(), "passive", {{narrow, statistics_of({7})}}).value());
  CHECK(find_cost(database, kHash, narrow)->statistics == statistics_of({7}));
  CHECK(find_cost(database, kHash, key)->statistics == statistics_of({10, 20}));
  CHECK(cost_count(database) == 2);
}

TEST_CASE("a cost database of the first release is read and merged as it is") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  write_first_release(path);
  const std::string before = bytes_of(path);
  CHECK(find_cost(open_costs(path, OpenMode::kReadOnly), kHash, kOld)->statistics == statistics_of({10, 20}));
  CostDatabase other = open_costs(directory.file("other.db"));
  CHECK(other.merge_from(path).value().batches == 1);
  CHECK(find_cost(other, kHash, kOld)->statistics == statistics_of({10, 20}));
  CHECK(bytes_of(path) == before);
}

TEST_CASE("a batch that was damaged while the file is open is counted, and spoils nothing else") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  CostDatabase database = open_costs(path);
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint("y"), "active", {forward_cost("a", {1})}).value());
  REQUIRE(database.add_batch({"agent", 2}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
  Database raw = Database::open(path, DatabaseMode::kReadWrite, cost_tables::migrations()).value();
  const std::string damage = GENERATE("nonsense", "x 1;1;1;1;1;1;0:1\n", "7\n", "1 1;2;\n", "99 1;1;1;1;1;1;0:1\n");
  REQUIRE(raw.execute("UPDATE batches SET costs = ? WHERE number = 1", {damage}).ok());
  const auto found = database.costs(hash(sample_fingerprint("y")));
  REQUIRE(found.ok());
  CHECK(found->empty());
  CHECK(database.look_after().unreadable == 1);
  CHECK(database.costs(kHash).value().size() == 1);
  CHECK(database.add_batch({"other", 1}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
}
