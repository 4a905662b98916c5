#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_batches.hpp"
#include "../sample_costs.hpp"
#include "documents/json_document.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

CostDatabase create(const std::string& path) {
  return CostDatabase::open(path, OpenMode::kCreate).value();
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

// Where the three databases are: all of one kind, or mixed.
std::vector<std::vector<Backend>> mixes() {
  constexpr Backend kFile = Backend::kSqlite;
  constexpr Backend kServer = Backend::kPostgres;
  if (backends().size() == 1) return {{kFile, kFile, kFile}};
  return {{kFile, kFile, kFile}, {kServer, kServer, kServer}, {kFile, kServer, kFile}};
}

}  // namespace

TEST_CASE("merging in any order, any number of times, gives the same bits everywhere") {
  const std::uint64_t seed = Catch::rngSeed() == 0 ? 4242 : Catch::rngSeed();
  const std::vector<Backend> mix = GENERATE(from_range(mixes()));
  Random random(seed);
  for (int round = 0; round < 4; ++round) {
    INFO("seed " << seed << ", round " << round);
    const DatabasePlace place(Backend::kSqlite);
    const std::vector<Batch> batches = random_batches(random);
    std::vector<CostDatabase> databases;
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < mix.size(); ++i) {
      paths.push_back(place.name(std::to_string(i), mix[i]));
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
      for (const std::string& path : paths) REQUIRE(database.merge_from(path).value().batches == 0);
      REQUIRE(contents(database) == expected);
    }
    // Batches that arrive late are known, too.
    for (const Batch& batch : batches) {
      REQUIRE_FALSE(databases[0].add_batch(batch.id, sample_fingerprint(batch.cpu), batch.source, batch.costs).value());
    }
  }
}

TEST_CASE("merging counts the batches that were new") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase ours = create(place.name("a"));
  CostDatabase theirs = create(place.name("b"));
  for (std::uint64_t number = 1; number <= 100; ++number) {
    const Batch batch{{"agent", number}, "x", "active", {forward_cost("a", {1})}};
    store(theirs, batch);
    if (number <= 10 || number == 90) store(ours, batch);
  }
  CHECK(ours.merge_from(place.name("b")).value().batches == 89);
  CHECK(ours.merge_from(place.name("b")).value().batches == 0);
  CHECK(ours.merge_from(place.name("a")).value().batches == 0);
  CHECK(theirs.merge_from(place.name("a")).value().batches == 0);
  CHECK(contents(ours) == contents(theirs));
}

TEST_CASE("a shorter folded part does not replace a longer one") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase longer = create(place.name("long"));
  CostDatabase shorter = create(place.name("short"));
  for (std::uint64_t number = 1; number <= 128; ++number) {
    const Batch batch{{"agent", number}, "x", "active", {forward_cost("a", {static_cast<std::int64_t>(number)})}};
    store(longer, batch);
    if (number <= 64) store(shorter, batch);
  }
  const std::vector<std::string> expected = contents(longer);
  CHECK(longer.merge_from(place.name("short")).value().batches == 0);
  CHECK(contents(longer) == expected);
  CHECK(shorter.merge_from(place.name("long")).value().batches == 64);
  CHECK(contents(shorter) == expected);
}

TEST_CASE("facts merge to the same whatever the order") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase one = create(place.name("a"));
  CostDatabase other = create(place.name("b"));
  REQUIRE(one.put_fact("f", "newer", "1").ok());
  REQUIRE(one.put_fact("f", "newer", "2").ok());
  REQUIRE(other.put_fact("f", "newer", "9").ok());
  REQUIRE(one.put_fact("f", "tie", "3").ok());
  REQUIRE(other.put_fact("f", "tie", "4").ok());
  REQUIRE(other.put_fact("f", "theirs", "5").ok());
  REQUIRE(one.merge_from(place.name("b")).ok());
  REQUIRE(other.merge_from(place.name("a")).ok());
  for (const CostDatabase* database : {&one, &other}) {
    CHECK(database->fact("f", "newer").value() == "2");
    CHECK(database->fact("f", "tie").value() == "4");
    CHECK(database->fact("f", "theirs").value() == "5");
  }
}

TEST_CASE("merging what is no cost database is refused and changes nothing") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = create(place.name("a"));
  store(database, {{"agent", 1}, "x", "active", {forward_cost("a", {1})}});
  const std::vector<std::string> before = contents(database);
  const TemporaryDirectory directory;
  write_bytes(directory.file("text"),
              "not a database, but longer than the one hundred bytes of the header of an SQLite "
              "file, which are read before anything else");
  CHECK_THAT(database.merge_from(directory.file("text")).error().message, Catch::Contains("not an SQLite database"));
  CHECK_THAT(database.merge_from(directory.file("none")).error().message, Catch::Contains("there is no cost database"));
  CHECK(contents(database) == before);
}

TEST_CASE("of a damaged database what can be read is merged") {
  const TemporaryDirectory directory;
  CostDatabase database = create(directory.file("ours"));
  {
    CostDatabase theirs = create(directory.file("theirs"));
    store(theirs, {{"agent", 1}, "x", "active", {forward_cost("a", {1})}});
  }
  std::string bytes = bytes_of(directory.file("theirs"));
  const std::string hash = trimtab::hash(sample_fingerprint("x"));
  REQUIRE(bytes.find(hash) != std::string::npos);
  for (auto at = bytes.find(hash); at != std::string::npos; at = bytes.find(hash, at)) bytes[at] = '\xff';
  write_bytes(directory.file("theirs"), bytes);
  REQUIRE(database.merge_from(directory.file("theirs")).ok());
  CHECK(contents(database).empty());
  store(database, {{"agent", 1}, "x", "active", {forward_cost("a", {1})}});
  CHECK(contents(database).size() == 1);
}
