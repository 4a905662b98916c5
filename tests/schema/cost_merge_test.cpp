#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sample_costs.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

CostDatabase create(const std::string& path) {
  return CostDatabase::open(path, OpenMode::kCreate).value();
}

struct Batch {
  BatchId id;
  std::string cpu;
  std::string source;
  std::vector<Cost> costs;
};

// Batches of several origins, some of them with gaps in their numbers, most from 1 on without one.
std::vector<Batch> random_batches(Random& random) {
  std::vector<Batch> batches;
  for (const char* origin : {"a", "b", "c"}) {
    const bool gaps = random.below(3) == 0;
    const std::uint64_t count = random.below(200);
    std::uint64_t number = random.below(2);
    for (std::uint64_t i = 0; i < count; ++i) {
      batches.push_back({{origin, number},
                         random.below(4) == 0 ? "x" : "y",
                         random.below(2) == 0 ? "active" : "passive",
                         random_costs(random, 2)});
      number += gaps ? 1 + random.below(3) : 1;
    }
  }
  return batches;
}

void store(CostDatabase& database, const Batch& batch) {
  REQUIRE(database.add_batch(batch.id, sample_fingerprint(batch.cpu), batch.source, batch.costs).ok());
}

// What all batches together must give, by the statistics alone.
std::vector<std::string> expected_contents(const std::vector<Batch>& batches) {
  std::map<std::tuple<std::string, std::string, CostKey>, Statistics> sums;
  for (const Batch& batch : batches) {
    for (const Cost& cost : batch.costs) {
      sums[{hash(sample_fingerprint(batch.cpu)), batch.source, cost.key}].merge(cost.statistics);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [place, statistics] : sums) {
    const auto& [fingerprint, source, key] = place;
    lines.push_back(fingerprint + " " + source + " " + describe(key) + " " + statistics.encode());
  }
  return lines;
}

// Gives each batch to one database or to several, each database its batches in their order or shuffled.
void spread(Random& random, const std::vector<Batch>& batches, std::vector<CostDatabase>& databases) {
  std::vector<std::vector<Batch>> parts(databases.size());
  const bool prefixes = random.below(2) == 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    parts[random.below(parts.size())].push_back(batches[i]);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      // Prefixes make databases fold; the later ones get longer prefixes.
      const bool copied = prefixes ? batches[i].id.number < 50 * (p + 1) : random.below(4) == 0;
      if (copied) parts[p].push_back(batches[i]);
    }
  }
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (std::size_t i = parts[p].size(); random.below(2) == 0 && i > 1; --i) {
      std::swap(parts[p][i - 1], parts[p][random.below(i)]);
    }
    for (const Batch& batch : parts[p]) store(databases[p], batch);
  }
}

}  // namespace

TEST_CASE("merging in any order, any number of times, gives the same bits everywhere") {
  const std::uint64_t seed = Catch::rngSeed() == 0 ? 4242 : Catch::rngSeed();
  Random random(seed);
  for (int round = 0; round < 4; ++round) {
    INFO("seed " << seed << ", round " << round);
    const TemporaryDirectory directory;
    const std::vector<Batch> batches = random_batches(random);
    std::vector<CostDatabase> databases;
    std::vector<std::string> paths;
    for (const char* name : {"0.db", "1.db", "2.db"}) {
      paths.push_back(directory.file(name));
      databases.push_back(create(paths.back()));
    }
    spread(random, batches, databases);
    for (int merges = 0; merges < 8; ++merges) {
      const std::size_t to = random.below(databases.size());
      REQUIRE(databases[to].merge_from(paths[random.below(paths.size())]).ok());
    }
    // Each has now heard from each, directly or through another.
    for (const auto& [to, from] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {0, 2}, {1, 0}, {2, 1}}) {
      REQUIRE(databases[to].merge_from(paths[from]).ok());
    }
    const std::vector<std::string> expected = expected_contents(batches);
    for (CostDatabase& database : databases) {
      REQUIRE(contents(database) == expected);
      for (const std::string& path : paths) REQUIRE(database.merge_from(path).value() == 0);
      REQUIRE(contents(database) == expected);
    }
    // Batches that arrive late are known, too.
    for (const Batch& batch : batches) {
      REQUIRE_FALSE(databases[0].add_batch(batch.id, sample_fingerprint(batch.cpu), batch.source, batch.costs).value());
    }
  }
}

TEST_CASE("merging counts the batches that were new") {
  const TemporaryDirectory directory;
  CostDatabase ours = create(directory.file("a.db"));
  CostDatabase theirs = create(directory.file("b.db"));
  for (std::uint64_t number = 1; number <= 100; ++number) {
    const Batch batch{{"agent", number}, "x", "active", {forward_cost("a", {1})}};
    store(theirs, batch);
    if (number <= 10 || number == 90) store(ours, batch);
  }
  CHECK(ours.merge_from(directory.file("b.db")).value() == 89);
  CHECK(ours.merge_from(directory.file("b.db")).value() == 0);
  CHECK(ours.merge_from(directory.file("a.db")).value() == 0);
  CHECK(theirs.merge_from(directory.file("a.db")).value() == 0);
  CHECK(contents(ours) == contents(theirs));
}

TEST_CASE("a shorter folded part does not replace a longer one") {
  const TemporaryDirectory directory;
  CostDatabase longer = create(directory.file("long.db"));
  CostDatabase shorter = create(directory.file("short.db"));
  for (std::uint64_t number = 1; number <= 128; ++number) {
    const Batch batch{{"agent", number}, "x", "active", {forward_cost("a", {static_cast<std::int64_t>(number)})}};
    store(longer, batch);
    if (number <= 64) store(shorter, batch);
  }
  const std::vector<std::string> expected = contents(longer);
  CHECK(longer.merge_from(directory.file("short.db")).value() == 0);
  CHECK(contents(longer) == expected);
  CHECK(shorter.merge_from(directory.file("long.db")).value() == 64);
  CHECK(contents(shorter) == expected);
}

TEST_CASE("facts merge to the same whatever the order") {
  const TemporaryDirectory directory;
  CostDatabase one = create(directory.file("a.db"));
  CostDatabase other = create(directory.file("b.db"));
  REQUIRE(one.put_fact("f", "newer", "1").ok());
  REQUIRE(one.put_fact("f", "newer", "2").ok());
  REQUIRE(other.put_fact("f", "newer", "9").ok());
  REQUIRE(one.put_fact("f", "tie", "3").ok());
  REQUIRE(other.put_fact("f", "tie", "4").ok());
  REQUIRE(other.put_fact("f", "theirs", "5").ok());
  REQUIRE(one.merge_from(directory.file("b.db")).ok());
  REQUIRE(other.merge_from(directory.file("a.db")).ok());
  for (const CostDatabase* database : {&one, &other}) {
    CHECK(database->fact("f", "newer").value() == "2");
    CHECK(database->fact("f", "tie").value() == "4");
    CHECK(database->fact("f", "theirs").value() == "5");
  }
}

TEST_CASE("merging what is no cost database is refused and changes nothing") {
  const TemporaryDirectory directory;
  CostDatabase database = create(directory.file("a.db"));
  store(database, {{"agent", 1}, "x", "active", {forward_cost("a", {1})}});
  const std::vector<std::string> before = contents(database);
  write_bytes(directory.file("text"),
              "not a database, but longer than the one hundred bytes of the header of an SQLite "
              "file, which are read before anything else");
  CHECK_THAT(database.merge_from(directory.file("text")).error().message, Catch::Contains("not an SQLite database"));
  CHECK_THAT(database.merge_from(directory.file("none")).error().message, Catch::Contains("there is no cost database"));
  CHECK(contents(database) == before);
}
