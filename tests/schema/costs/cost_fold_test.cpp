// Folding of origins that send no more.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_batches.hpp"
#include "../sample_costs.hpp"
#include "costs/cost_tables.hpp"
#include "schema/cost_database.hpp"
#include "schema/database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

constexpr std::size_t kAll = 1000;

Batch batch(const std::string& origin, std::uint64_t number) {
  const auto value = static_cast<std::int64_t>(number);
  return {{origin, number}, number % 2 == 0 ? "x" : "y", "passive", {forward_cost("a", {value})}};
}

// Some 20 KiB.
Batch large_batch(const std::string& origin, std::uint64_t number) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = 100; value < 1'000'000; value += value / 2) values.push_back(value);
  Batch large{{origin, number}, "x", "passive", {}};
  for (int key = 0; key < 100; ++key) large.costs.push_back(forward_cost("k" + std::to_string(key), values));
  return large;
}

std::vector<std::string> names_of(const std::vector<UnfoldedOrigin>& origins) {
  std::vector<std::string> names;
  for (const UnfoldedOrigin& origin : origins) names.push_back(origin.name);
  return names;
}

// How many transactions it took.
int fold_all(CostDatabase& database) {
  std::vector<std::string> names = names_of(database.unfolded_origins(0, kAll).value());
  int slices = 0;
  for (; !names.empty(); ++slices) {
    REQUIRE(slices < 1000);
    const std::size_t done = database.fold_origins(names).value();
    names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(done));
  }
  return slices;
}

std::int64_t single_batches(const DatabasePlace& place) {
  const auto tables = Database::open(place.name("c"), DatabaseMode::kReadOnly, cost_tables::migrations()).value();
  return as_integer(tables.query("SELECT COUNT(*) FROM batches").value().at(0)[0]);
}

}  // namespace

TEST_CASE("no batches of one node make what all have of its hardware unreadable") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const Statistics most = Statistics::decode("1;281474976710656;0;0;0;0;-1:281474976710656").value();
  for (std::uint64_t number = 1; number <= 3; ++number) {
    store(database, {{"hostile", number}, "x", "passive", {{forward_key("a"), most}}});
  }
  store(database, {{"honest", 1}, "x", "passive", {forward_cost("b", {5})}});
  for (int folded = 0; folded < 2; ++folded) {
    CHECK(find_cost(database, hash(sample_fingerprint("x")), forward_key("a"))->statistics.count() == most.count());
    CHECK(database.costs(hash(sample_fingerprint("x"))).value().size() == 2);
    CHECK(database.rows().value().size() == 2);
    fold_all(database);
  }
}

TEST_CASE("what origins left that are gone is folded, and each of their batches still counts once") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  std::vector<Batch> batches;
  for (int origin = 0; origin < 20; ++origin) {
    for (std::uint64_t number = 1; number <= 30; ++number) {
      batches.push_back(batch("agent" + std::to_string(origin), number));
      REQUIRE(store(database, batches.back()));
    }
  }
  REQUIRE(single_batches(place) == 600);
  CHECK(fold_all(database) >= 2);  // of 16 origins at most
  CHECK(single_batches(place) == 0);
  CHECK(database.unfolded_origins(0, kAll).value().empty());
  CHECK(contents(database) == expected_contents(batches));
  for (const Batch& again : batches) CHECK_FALSE(store(database, again));
  batches.push_back(batch("agent3", 31));
  CHECK(store(database, batches.back()));
  CHECK(contents(database) == expected_contents(batches));
  CHECK(database.fold_origins({}).value() == 0);
}

TEST_CASE("an origin with many costs is folded a part at a time") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  std::vector<Batch> batches;
  for (std::uint64_t number = 1; number <= 20; ++number) {
    batches.push_back(large_batch("agent", number));
    REQUIRE(store(database, batches.back()));
  }
  const std::vector<std::string> names{"agent"};
  CHECK(database.fold_origins(names).value() == 0);
  const std::int64_t left = single_batches(place);
  CHECK(left < 20);
  CHECK(left > 5);
  CHECK(contents(database) == expected_contents(batches));
  CHECK(fold_all(database) >= 2);
  CHECK(single_batches(place) == 0);
  CHECK(contents(database) == expected_contents(batches));
}

TEST_CASE("what follows on a gap, and number 0, is not folded, and told to be stuck") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  std::vector<Batch> batches;
  const auto add = [&](std::uint64_t number) {
    batches.push_back(batch("agent", number));
    REQUIRE(store(database, batches.back()));
  };
  for (const std::uint64_t number : {0, 1, 2, 4}) add(number);
  auto origins = database.unfolded_origins(0, kAll).value();
  REQUIRE(origins.size() == 1);
  CHECK(origins[0].last == 4);
  CHECK_FALSE(origins[0].is_stuck);
  const std::vector<std::string> names{"agent"};
  CHECK(database.fold_origins(names).value() == 1);
  CHECK(single_batches(place) == 2);
  CHECK(database.unfolded_origins(0, kAll).value().at(0).is_stuck);
  CHECK(database.fold_origins(names).value() == 1);
  CHECK(single_batches(place) == 2);
  add(3);
  CHECK_FALSE(database.unfolded_origins(0, kAll).value().at(0).is_stuck);
  CHECK(database.fold_origins(names).value() == 1);
  CHECK(single_batches(place) == 1);
  CHECK(contents(database) == expected_contents(batches));
}

TEST_CASE("origins with batches that are not folded are listed a page at a time") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  for (int origin = 0; origin < 5; ++origin) {
    for (std::uint64_t number = 1; number <= 3; ++number) {
      REQUIRE(store(database, batch("agent" + std::to_string(origin), number)));
    }
  }
  const std::vector<std::string> folded{"agent1"};
  REQUIRE(database.fold_origins(folded).value() == 1);
  const auto page = database.unfolded_origins(0, 3).value();
  CHECK(names_of(page) == std::vector<std::string>{"agent0", "agent2", "agent3"});
  CHECK(names_of(database.unfolded_origins(page.back().id, 3).value()) == std::vector<std::string>{"agent4"});
}

TEST_CASE("databases of which one was folded at other numbers merge to the same") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase ours = open_costs(place.name("a"));
  CostDatabase theirs = open_costs(place.name("b"));
  std::vector<Batch> batches;
  for (std::uint64_t number = 1; number <= 50; ++number) {
    batches.push_back(batch("agent", number));
    if (number <= 30) store(ours, batches.back());
    store(theirs, batches.back());
    if (number % 7 == 0) fold_all(ours);
    if (number == 20) fold_all(theirs);
  }
  CHECK(ours.merge_from(place.name("b")).value().batches == 20);
  CHECK(theirs.merge_from(place.name("a")).value().batches == 0);
  CHECK(contents(ours) == expected_contents(batches));
  CHECK(contents(theirs) == expected_contents(batches));
}

TEST_CASE("a key counts once, whatever hardware, source and origin its costs are of, and whoever added it") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  CHECK(database.key_count().value() == 0);
  for (const char* cpu : {"x", "y"}) {
    for (const char* source : {"active", "passive"}) {
      const BatchId id{std::string(cpu) + source, 1};
      REQUIRE(database.add_batch(id, sample_fingerprint(cpu), source, {forward_cost("a", {1})}).value());
    }
  }
  CHECK(database.key_count().value() == 1);
  CostDatabase other = open_costs(place.name("c"), OpenMode::kReadWrite);
  REQUIRE(store(other, {{"other", 1}, "x", "active", {forward_cost("b", {1}), forward_cost("c", {1})}}));
  CHECK(database.key_count().value() == 3);
  fold_all(database);
  CHECK(database.key_count().value() == 3);
  CHECK(other.key_count().value() == 3);
}
