// A cost database, or the maker of an origin's batches, that was set back to an older copy.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "costs/cost_tables.hpp"
#include "schema/cost_database.hpp"
#include "schema/database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const std::string kHash = hash(sample_fingerprint());

void store(CostDatabase& database, std::uint64_t number) {
  REQUIRE(database.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
}

std::uint64_t counted(const CostDatabase& database) {
  return find_cost(database, kHash, forward_key("a"))->statistics.count();
}

void store(CostDatabase& database, std::uint64_t number, const std::string& node) {
  const CostBatch batch{{"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {1})}, node};
  REQUIRE(database.add_batches({&batch, 1}).value().front());
}

struct Tables {
  std::int64_t folded = 0;
  std::int64_t single = 0;
};

Tables tables(const std::string& name) {
  const auto database = Database::open(name, DatabaseMode::kReadOnly, cost_tables::migrations()).value();
  const auto rows = database.query("SELECT folded, (SELECT COUNT(*) FROM batches) FROM origins").value();
  return {as_integer(rows.at(0)[0]), as_integer(rows.at(0)[1])};
}

}  // namespace

TEST_CASE("an older copy counts what nobody sends again as empty, and folds what follows") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  // What the copy has; 4 to 9 came after it and are acknowledged, but for 8, which is sent again.
  for (const std::uint64_t number : {1, 2, 3, 6}) store(database, number);
  const OriginFindings found = database.compare({"agent", 8, 12}).value();
  CHECK(found.lost == 3);  // 4, 5 and 7
  CHECK_FALSE(found.ahead);
  for (std::uint64_t number = 8; number <= 200; ++number) store(database, number);
  const Tables after = tables(place.name("c"));
  CHECK(after.folded >= 200 - 64);
  CHECK(after.folded + after.single == 200);
  CHECK(counted(database) == 4 + 193);
  CHECK(database.compare({"agent", 201, 200}).value().lost == 0);
  CHECK(counted(database) == 4 + 193);
}

TEST_CASE("an older copy that knows nothing of an origin begins where its maker goes on") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  CHECK(database.compare({"agent", 71, 75}).value().lost == 70);
  CHECK(tables(place.name("c")).folded == 70);
  CHECK(database.compare({"agent", 71, 75}).value().lost == 0);
}

TEST_CASE("what is sent again, or on its way, is not lost") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  for (std::uint64_t number = 1; number <= 100; ++number) store(database, number);
  const Tables before = tables(place.name("c"));
  // The acknowledgements of 99 and 100 were lost, 101 was never sent.
  for (const std::uint64_t held_from : {99, 101, 0}) {
    const OriginFindings found = database.compare({"agent", held_from, 101}).value();
    CHECK(found.lost == 0);
    CHECK_FALSE(found.ahead);
  }
  const OriginFindings other = database.compare({"new agent", 1, 0}).value();
  CHECK(other.lost == 0);
  CHECK_FALSE(other.ahead);
  CHECK(tables(place.name("c")).folded == before.folded);
}

TEST_CASE("an origin that has numbered fewer batches than are stored is told from one that has not") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  for (std::uint64_t number = 1; number <= 70; ++number) store(database, number);
  CHECK(database.compare({"agent", 61, 60}).value().ahead);
  CHECK(database.compare({"agent", 40, 69}).value().ahead);
  CHECK(database.compare({"agent", 1, 0}).value().last == 70);
  CHECK_FALSE(database.compare({"agent", 61, 70}).value().ahead);
  CHECK(counted(database) == 70);
}

TEST_CASE("an origin is the node's that named itself first, and another finds and changes nothing of it") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  store(database, 1, "n0");
  const OriginFindings foreign = database.compare({"agent", 1'000'001, 1'000'000, "n1"}).value();
  CHECK(foreign.node == "n0");
  CHECK(foreign.lost == 0);
  CHECK(tables(place.name("c")).folded == 0);
  store(database, 2, "n1");  // beside it
  store(database, 2, "n0");
  store(database, 3, "n0");
  CHECK(counted(database) == 4);
  CHECK(database.compare({"agent", 4, 3, "n0"}).value().lost == 0);
  CHECK(database.compare({"agent", 8, 12, "n0"}).value().lost == 4);
}

TEST_CASE("an origin of an earlier release is the node's that is next named with it") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  for (const std::uint64_t number : {1, 2}) store(database, number);
  CHECK(database.compare({"agent", 3, 2, "n0"}).value().node.empty());
  const OriginFindings taken = database.compare({"agent", 5, 4, "n0"}).value();
  CHECK(taken.lost == 2);
  CHECK(taken.node == "n0");
  CHECK(database.compare({"agent", 9, 8, "n1"}).value().node == "n0");
  CHECK(tables(place.name("c")).folded == 4);
}

TEST_CASE("numbers that cannot be are refused") {
  const DatabasePlace place(Backend::kSqlite);
  CostDatabase database = open_costs(place.name("c"));
  for (const OriginNumbers& said :
       {OriginNumbers{"", 1, 1}, OriginNumbers{"agent", 3, 1}, OriginNumbers{"agent", 1, UINT64_MAX}}) {
    const auto refused = database.compare(said);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == ErrorKind::kBadInput);
  }
}

TEST_CASE("a fact is changed from what is there") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const auto add = [](const std::string* known) { return (known == nullptr ? "none" : *known) + "+"; };
  REQUIRE(database.change_fact("f", "name", add).ok());
  CHECK(database.fact("f", "name").value() == "none+");
  REQUIRE(database.change_fact("f", "name", add).ok());
  CHECK(database.fact("f", "name").value() == "none++");
}
