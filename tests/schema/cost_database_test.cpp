#include "schema/cost_database.hpp"

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cost_tables.hpp"
#include "sample_costs.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

CostDatabase open(const std::string& path, OpenMode mode = OpenMode::kCreate) {
  auto database = CostDatabase::open(path, mode);
  INFO((database.ok() ? "" : database.error().message));
  REQUIRE(database.ok());
  return std::move(database).value();
}

const std::string kHash = hash(sample_fingerprint());

}  // namespace

TEST_CASE("a batch that comes twice counts once") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  const std::vector<Cost> costs{forward_cost("a", {10, 20})};
  CHECK(database.add_batch({"agent", 1}, sample_fingerprint(), "active", costs).value());
  CHECK_FALSE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", costs).value());
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({10, 20}));
  CHECK(database.add_batch({"other agent", 1}, sample_fingerprint(), "active", costs).value());
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({10, 10, 20, 20}));
}

TEST_CASE("an empty batch counts as stored, too") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  CHECK(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {}).value());
  CHECK_FALSE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
  CHECK(database.cost_count().value() == 0);
}

TEST_CASE("costs are found after closing and opening again") {
  const TemporaryDirectory directory;
  {
    CostDatabase database = open(directory.file("c.db"));
    REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value());
  }
  const CostDatabase database = open(directory.file("c.db"), OpenMode::kReadOnly);
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({7}));
  CHECK_FALSE(database.find(kHash, forward_key("b")).value().has_value());
  CHECK_FALSE(database.find("0000", forward_key("a")).value().has_value());
  CHECK(database.fingerprints().value() == std::vector<Fingerprint>{sample_fingerprint()});
}

TEST_CASE("sources are kept apart, and merged where none is named") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {10})}).value());
  REQUIRE(database.add_batch({"agent", 2}, sample_fingerprint(), "passive", {forward_cost("a", {30})}).value());
  CHECK(database.costs(kHash, {}, "active").value().at(0).statistics == statistics_of({10}));
  CHECK(database.costs(kHash, {}, "passive").value().at(0).statistics == statistics_of({30}));
  REQUIRE(database.costs(kHash).value().size() == 1);
  CHECK(database.costs(kHash).value()[0].statistics == statistics_of({10, 30}));
  CHECK(database.rows().value().size() == 2);
  CHECK(database.cost_count().value() == 2);
}

TEST_CASE("an import never outranks what was measured here, and stands in where nothing was") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  const std::string source = "import:nccl-tests";
  REQUIRE(database.add_batch({"b", 1}, sample_fingerprint(), source, {forward_cost("a", {1, 1, 1, 1, 1, 1})}).value());
  REQUIRE(database.add_batch({"b", 2}, sample_fingerprint(), source, {forward_cost("b", {5})}).value());
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({1, 1, 1, 1, 1, 1}));
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "passive", {forward_cost("a", {30})}).value());
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({30}));
  const auto costs = database.costs(kHash).value();
  REQUIRE(costs.size() == 2);
  CHECK(costs[0].statistics == statistics_of({30}));
  CHECK(costs[1].statistics == statistics_of({5}));
  CHECK(database.costs(kHash, {}, source).value().at(0).statistics == statistics_of({1, 1, 1, 1, 1, 1}));
  CHECK(database.rows().value().size() == 3);
}

TEST_CASE("costs are asked for by kind, and come in the order of their keys") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  Cost step{{CostKind::kStepTime, "plan", "", 0, 1, "default", 0, 0, ""}, statistics_of({1})};
  Cost process{{CostKind::kProcessBytes, "process", "", 0, 1, "default", 0, 0, ""}, statistics_of({2})};
  const std::vector<Cost> costs{step, forward_cost("b", {1}), process, forward_cost("a", {1})};
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", costs).value());
  const auto some = database.costs(kHash, {CostKind::kStepTime, CostKind::kOperatorForward}).value();
  REQUIRE(some.size() == 3);
  CHECK(some[0].key.subject == "a");
  CHECK(some[1].key.subject == "b");
  CHECK(some[2].key.kind == CostKind::kStepTime);
}

TEST_CASE("fingerprints do not share costs") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint("x"), "active", {forward_cost("a", {10})}).value());
  REQUIRE(database.add_batch({"agent", 2}, sample_fingerprint("y"), "active", {forward_cost("a", {99})}).value());
  CHECK(database.costs(hash(sample_fingerprint("x"))).value().at(0).statistics == statistics_of({10}));
  CHECK(database.fingerprints().value().size() == 2);
}

TEST_CASE("one key that a batch names twice, or spells in two ways, is one cost") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  const Cost bare{{CostKind::kCollective, "all_reduce", "", 0, 1, "default", 64, 2, ""}, statistics_of({1})};
  Cost full = bare;
  full.key.placement = "intra_node";
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {bare, full, bare}).value());
  CHECK(database.cost_count().value() == 1);
  CHECK(database.find(kHash, bare.key).value()->statistics == statistics_of({1, 1, 1}));
}

TEST_CASE("names of any bytes are stored as they are") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  const std::string name("a'b\"\0caf\xe9;--", 12);
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost(name, {5})}).value());
  CHECK(database.find(kHash, forward_key(name)).value()->statistics == statistics_of({5}));
  CHECK(database.costs(kHash).value().at(0).key.subject == name);
}

TEST_CASE("a batch without an origin or a source, or with a number beyond 2^63, is refused") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  CHECK(database.add_batch({"", 1}, sample_fingerprint(), "active", {}).error().kind == ErrorKind::kBadInput);
  CHECK(database.add_batch({"agent", 1}, sample_fingerprint(), "", {}).error().kind == ErrorKind::kBadInput);
  CHECK_FALSE(database.add_batch({"agent", ~std::uint64_t{0}}, sample_fingerprint(), "active", {}).ok());
  constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  CHECK(database.add_batch({"agent", kLast}, sample_fingerprint(), "active", {}).value());
}

TEST_CASE("many batches of one origin are folded, and each still counts once") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  Statistics expected;
  for (std::uint64_t number = 1; number <= 200; ++number) {
    const auto value = static_cast<std::int64_t>(number * number);
    expected.add(value);
    REQUIRE(
        database.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {value})}).value());
  }
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == expected);
  for (const std::uint64_t number : {1U, 64U, 100U, 192U, 200U}) {
    CHECK_FALSE(
        database.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
  }
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == expected);
  // Number 0 is never part of what is folded, so it is still new.
  CHECK(database.add_batch({"agent", 0}, sample_fingerprint(), "active", {forward_cost("b", {1})}).value());
}

TEST_CASE("folding keeps the number of stored rows bounded") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  CostDatabase database = open(path);
  for (std::uint64_t number = 1; number <= 640; ++number) {
    REQUIRE(database
                .add_batch({"agent", number}, sample_fingerprint(), "active",
                           {forward_cost("a", {1}), forward_cost("b", {1})})
                .value());
  }
  // Ten times 64 batches of two costs: unfolded they would take 1280 rows of about 100 bytes.
  CHECK(bytes_of(path).size() + bytes_of(path + "-wal").size() < 6'000'000);
  CostDatabase copy = open(directory.file("copy.db"));
  CHECK(copy.merge_from(path).value() == 640);
  CHECK(bytes_of(directory.file("copy.db")).size() < 80'000);
  CHECK(contents(copy) == contents(database));
}

TEST_CASE("a fact is what was put last") {
  const TemporaryDirectory directory;
  CostDatabase database = open(directory.file("c.db"));
  CHECK_FALSE(database.fact(kHash, "calibration").value().has_value());
  REQUIRE(database.put_fact(kHash, "calibration", R"({"a":1})").ok());
  REQUIRE(database.put_fact(kHash, "calibration", R"({"a":0})").ok());
  CHECK(database.fact(kHash, "calibration").value() == R"({"a":0})");
  CHECK_FALSE(database.fact("other", "calibration").value().has_value());
}

TEST_CASE("a database that is open for reading takes no batch") {
  const TemporaryDirectory directory;
  (void)open(directory.file("c.db"));
  CostDatabase database = open(directory.file("c.db"), OpenMode::kReadOnly);
  const auto result = database.add_batch({"agent", 1}, sample_fingerprint(), "active", {});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::kUnavailable);
}

TEST_CASE("reading leaves no files beside the database, and a reader may not write") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  { REQUIRE(open(path).add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value()); }
  {
    CostDatabase reader = open(path, OpenMode::kReadOnly);
    CHECK(reader.cost_count().value() == 1);
    CHECK_FALSE(reader.put_fact(kHash, "calibration", "{}").ok());
  }
  CHECK_FALSE(std::filesystem::exists(path + "-wal"));
  CHECK_FALSE(std::filesystem::exists(path + "-shm"));
}

TEST_CASE("a reader sees whole batches while a writer goes on") {
  const TemporaryDirectory directory;
  CostDatabase writer = open(directory.file("c.db"));
  const CostDatabase reader = open(directory.file("c.db"), OpenMode::kReadOnly);
  for (std::uint64_t number = 1; number <= 70; ++number) {
    REQUIRE(writer.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
    REQUIRE(reader.find(kHash, forward_key("a")).value()->statistics.count() == number);
  }
}

TEST_CASE("a cost database of the first release is taken over whole, and then tells channels and classes apart") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("c.db");
  {
    Migrations first = cost_tables::migrations();
    first.steps.resize(1);
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
  CostDatabase database = open(path, OpenMode::kReadWrite);
  CostKey key{CostKind::kOverlapComputation, "all_reduce", "", 0, 1, "default", 1024, 2, "intra_node"};
  CHECK(database.find(kHash, key).value()->statistics == statistics_of({10, 20}));
  CHECK_FALSE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {{key, statistics_of({5})}}).value());
  CostKey narrow = key;
  narrow.channels = 8;
  narrow.kernel_class = "gemm";
  narrow.algorithm = "ring";
  narrow.protocol = "simple";
  CHECK(database.add_batch({"agent", 2}, sample_fingerprint(), "passive", {{narrow, statistics_of({7})}}).value());
  CHECK(database.find(kHash, narrow).value()->statistics == statistics_of({7}));
  CHECK(database.find(kHash, key).value()->statistics == statistics_of({10, 20}));
  CHECK(database.cost_count().value() == 2);
}
