// Costs that somebody contributes, and copies of a database in parts.

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "costs/cost_tables.hpp"
#include "schema/sharing/contributed_source.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;
using Catch::Contains;

namespace {

ContributedCosts pushed(const std::string& who, const std::string& origin, std::vector<Cost> costs) {
  return {origin, sample_fingerprint(), contributed_source({}, who).value(), std::move(costs)};
}

ContributionCounts contribute(CostDatabase& database, const std::string& who, const std::string& origin,
                              std::vector<Cost> costs, std::int64_t at_ns = 5) {
  const ContributedCosts one = pushed(who, origin, std::move(costs));
  return database.contribute({who, at_ns}, {&one, 1}).value();
}

std::vector<Cost> costs_of(int first, int last, const std::vector<std::int64_t>& values) {
  std::vector<Cost> costs;
  for (int i = first; i <= last; ++i) costs.push_back(forward_cost("operator-" + std::to_string(i), values));
  return costs;
}

// Page by page; `between` is done after each.
void copy(const CostDatabase& from, CostDatabase& to, std::size_t most, const std::function<void()>& between = {}) {
  std::string after;
  do {
    const CostParts page = from.parts_after(after, most).value();
    REQUIRE(to.put_parts(page).ok());
    after = page.next;
    if (between) between();
  } while (!after.empty());
}

}  // namespace

TEST_CASE("what is contributed again counts once, and of two values the one with more measurements stays") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("costs"));
  REQUIRE(database.add_batch({"own", 1}, sample_fingerprint(), "benchmark", costs_of(1, 1, {7})).value());
  CHECK(contribute(database, "ana", "o", costs_of(1, 3, {100, 101})).added == 3);
  const auto once = contents(database);
  CHECK(contribute(database, "ana", "o", costs_of(1, 3, {100, 101}), 9).equal == 3);
  CHECK(contents(database) == once);
  CHECK(contribute(database, "ana", "o", costs_of(1, 1, {100})).older == 1);
  CHECK(contents(database) == once);
  CHECK(contribute(database, "ana", "o", costs_of(1, 1, {100, 101, 102})).renewed == 1);
  // Another's do not meet them, and the cluster's own stay alone.
  CHECK(contribute(database, "bob", "o", costs_of(1, 1, {500})).added == 1);
  const std::string hardware = hash(sample_fingerprint());
  const auto of = [&](const std::string& source) {
    return find_cost(database, hardware, forward_key("operator-1"), source)->statistics;
  };
  CHECK(of("benchmark") == statistics_of({7}));
  CHECK(of("import:contributor/ana/benchmark") == statistics_of({100, 101, 102}));
  CHECK(of("import:contributor/bob/benchmark") == statistics_of({500}));
  // What the database measured itself comes back to it, and is nobody's contribution.
  CHECK(contribute(database, "ana", "own", costs_of(1, 1, {7})).own == 1);
  const auto summaries = database.contributors().value();
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[0].name == "ana");
  CHECK(summaries[0].costs == 3);
  CHECK(summaries[0].first_ns == 5);
  CHECK(summaries[1].costs == 1);
}

TEST_CASE("what was contributed under a clock before 1970 is copied like all else") {
  const TemporaryDirectory directory;
  CostDatabase database = open_costs(directory.file("a"));
  CHECK(contribute(database, "eva", "theirs", costs_of(1, 3, {7}), -5).added == 3);
  const CostParts page = database.parts_after("", 100).value();
  REQUIRE(page.parts.size() == 1);
  CHECK(page.parts[0].first_ns == 0);
  CHECK(page.parts[0].last_ns == 0);
  CostDatabase other = open_costs(directory.file("b"));
  CHECK(other.put_parts(page).ok());
  CHECK(contribute(database, "eva", "theirs", costs_of(4, 4, {7}), 9).added == 1);
  CHECK(database.parts_after("", 100).value().parts[0].last_ns == 9);
}

TEST_CASE("a contributor cannot speak in another's name, and has room for so many costs") {
  const DatabasePlace place(Backend::kSqlite);
  CostDatabase database = open_costs(place.name("costs"));
  CHECK(contribute(database, "ana", "o", costs_of(1, 2, {100})).added == 2);
  const auto before = contents(database);
  const ContributedCosts of_bob = pushed("bob", "o", costs_of(1, 9, {1}));
  CHECK_THAT(database.contribute({"ana", 1}, {&of_bob, 1}).error().message, Contains("of contributor ana must say so"));
  const ContributedCosts nested = pushed("ana", "/contributed/bob/o", costs_of(1, 9, {1}));
  CHECK_THAT(database.contribute({"ana", 1}, {&nested, 1}).error().message, Contains("that nobody contributed"));
  CHECK_FALSE(database.contribute({"a/b", 1}, {}).ok());
  {
    auto raw = Database::open(place.name("costs"), DatabaseMode::kReadWrite, cost_tables::migrations()).value();
    const std::int64_t most = kMostContributed;
    REQUIRE(raw.execute("UPDATE contributions SET costs = ?1, checksum = row_checksum(origin, contributor, first_ns, "
                        "last_ns, ?1)",
                        {most})
                .ok());
  }
  const ContributedCosts more = pushed("ana", "o", costs_of(3, 3, {100}));
  const auto refused = database.contribute({"ana", 1}, {&more, 1});
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.error().message, Contains("100000 costs are kept at most") && Contains("100001 of ana"));
  CHECK(contents(database) == before);
  CHECK(contribute(database, "bob", "o", costs_of(3, 3, {100})).added == 1);
}

TEST_CASE("contributed costs merge in any order and any number of times") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase first = open_costs(place.name("first"));
  CostDatabase second = open_costs(place.name("second"));
  contribute(first, "ana", "o", costs_of(1, 4, {100, 101}), 5);
  contribute(second, "ana", "o", costs_of(3, 6, {100, 101, 102}), 3);
  contribute(second, "bob", "o", costs_of(1, 1, {9}), 4);
  CostDatabase one = open_costs(place.name("one"));
  CostDatabase other = open_costs(place.name("other"));
  REQUIRE(one.merge_from(place.name("first")).ok());
  const MergeCounts counts = one.merge_from(place.name("second")).value();
  CHECK(counts.contributed.added == 3);
  CHECK(counts.contributed.renewed == 2);
  REQUIRE(other.merge_from(place.name("second")).ok());
  CHECK(other.merge_from(place.name("first")).value().contributed.older == 2);
  CHECK(contents(one) == contents(other));
  CHECK(one.merge_from(place.name("first")).value().batches == 0);
  CHECK(one.merge_from(place.name("second")).value().batches == 0);
  CHECK(contents(one) == contents(other));
  const auto summaries = one.contributors().value();
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[0].costs == 6);
  CHECK(summaries[0].first_ns == 3);
  CHECK(summaries[0].last_ns == 5);
}

TEST_CASE("one contributor's costs are removed, in steps, and nobody else's") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("costs"));
  REQUIRE(database.add_batch({"own", 1}, sample_fingerprint(), "benchmark", costs_of(1, 4, {7})).value());
  contribute(database, "bob", "o", costs_of(1, 2, {9}));
  const auto before = contents(database);
  contribute(database, "ana", "o", costs_of(1, 5, {100}));
  contribute(database, "ana", "p", costs_of(1, 5, {100}));
  std::uint64_t removed = 0;
  int steps = 0;
  for (bool all = false; !all; ++steps) {
    const RemovedCosts some = database.remove_contributed("ana", 4).value();
    CHECK(some.costs <= 4);
    removed += some.costs;
    all = some.all;
    CHECK(database.contributors().value().front().name == (all ? "bob" : "ana"));
  }
  CHECK(removed == 10);
  CHECK(steps == 3);
  CHECK(contents(database) == before);
  CHECK(database.remove_contributed("ana", 4).value().costs == 0);
  CHECK(contribute(database, "ana", "o", costs_of(1, 5, {100})).added == 5);
}

TEST_CASE("a copy in parts holds what the database holds, and merges like it") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase from = open_costs(place.name("from"));
  const auto add = [&](const std::string& origin, std::uint64_t number) {
    return from.add_batch({origin, number}, sample_fingerprint(origin), "training alone host-clock",
                          costs_of(1, 3, {static_cast<std::int64_t>(100 + number)}));
  };
  for (std::uint64_t number = 1; number <= 70; ++number) REQUIRE(add("a", number).value());
  for (std::uint64_t number = 1; number <= 5; ++number) REQUIRE(add("b", 2 * number).value());
  contribute(from, "ana", "o", costs_of(1, 7, {100}));
  const std::size_t most = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{1000});
  CostDatabase to = open_costs(place.name("to", Backend::kSqlite));
  copy(from, to, most);
  CHECK(contents(to) == contents(from));
  CHECK(to.contributors().value().front().last_ns == 5);
  // The whole database has nothing that the copy lacks.
  CHECK(to.merge_from(place.name("from")).value().batches == 0);
  CHECK(from.parts_after("x", most).error().kind == ErrorKind::kBadInput);
}

TEST_CASE("a copy during which the database goes on never counts a batch twice") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase from = open_costs(place.name("from"));
  std::uint64_t number = 0;
  const auto add = [&] {
    ++number;
    return from.add_batch({"a", number}, sample_fingerprint(), "benchmark", costs_of(1, 3, {1})).value();
  };
  while (number < 60) REQUIRE(add());
  CostDatabase to = open_costs(place.name("to", Backend::kSqlite));
  copy(from, to, 8, [&] {
    if (number < 140) REQUIRE((add() && add() && add() && add()));
  });
  const auto values = [](const CostDatabase& database) {
    return find_cost(database, hash(sample_fingerprint()), forward_key("operator-1"))->statistics.count();
  };
  CHECK(values(to) >= 60);
  CHECK(values(to) <= values(from));
  // What came meanwhile comes with the next merge, and nothing twice.
  REQUIRE(to.merge_from(place.name("from")).ok());
  CHECK(contents(to) == contents(from));
}

TEST_CASE("parts that contradict themselves are refused, and change nothing") {
  const DatabasePlace place(Backend::kSqlite);
  CostDatabase to = open_costs(place.name("to"));
  CostPart part{"a", 3};
  part.costs.push_back({"0123456789abcdef", "benchmark", costs_of(1, 1, {1}).front()});
  CHECK_THAT(to.put_parts({{part}, {sample_fingerprint()}, ""}).error().message, Contains("has another hash"));
  part.costs.front().fingerprint = hash(sample_fingerprint());
  part.batches.push_back({2, hash(sample_fingerprint()), "benchmark", costs_of(1, 1, {1})});
  CHECK_THAT(to.put_parts({{part}, {sample_fingerprint()}, ""}).error().message, Contains("has batch 2 twice"));
  part.batches.clear();
  part.contributor = "ana";
  CHECK_THAT(to.put_parts({{part}, {sample_fingerprint()}, ""}).error().message, Contains("is not one that somebody"));
  CHECK(cost_count(to) == 0);
}

TEST_CASE("who contributed costs is still known when the row that says so is damaged") {
  const DatabasePlace place(Backend::kSqlite);
  {
    CostDatabase database = open_costs(place.name("costs"));
    contribute(database, "ana", "o", costs_of(1, 5, {100}));
  }
  {
    auto raw = Database::open(place.name("costs"), DatabaseMode::kReadWrite, cost_tables::migrations()).value();
    REQUIRE(raw.execute("UPDATE contributions SET contributor = 'eve'").ok());
  }
  CostDatabase database = open_costs(place.name("costs"));
  const auto summaries = database.contributors().value();
  REQUIRE(summaries.size() == 1);
  CHECK(summaries[0].name == "ana");
  CHECK(summaries[0].costs == 5);
  CHECK(database.remove_contributed("ana", 100).value().costs == 5);
}

TEST_CASE("a page leaves out costs of hardware whose text cannot be read, and the others reach everybody") {
  const DatabasePlace place(Backend::kSqlite);
  const Fingerprint lost = sample_fingerprint("lost");
  {
    CostDatabase from = open_costs(place.name("from"));
    REQUIRE(from.add_batch({"own", 1}, lost, "benchmark", costs_of(1, 2, {7})).value());
    REQUIRE(from.add_batch({"own", 2}, sample_fingerprint(), "benchmark", costs_of(3, 4, {8})).value());
    CHECK(contribute(from, "ana", "o", costs_of(5, 5, {9})).added == 1);
  }
  {
    Database raw =
        Database::open(place.name("from"), DatabaseMode::kReadWrite, cost_tables::migrations(), false).value();
    const std::string other = to_json(sample_fingerprint("lose"));
    REQUIRE(raw.execute("UPDATE fingerprints SET json = ? WHERE hash = ?", {other, hash(lost)}).ok());
  }
  CostDatabase from = open_costs(place.name("from"));
  CostDatabase to = open_costs(place.name("to"));
  copy(from, to, 1);
  CHECK(cost_count(to) == 3);
}
