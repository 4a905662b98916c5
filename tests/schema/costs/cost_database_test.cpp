#include "schema/cost_database.hpp"

#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "../sample_costs.hpp"
#include "costs/cost_tables.hpp"
#include "schema/database.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

const std::string kHash = hash(sample_fingerprint());

}  // namespace

TEST_CASE("a batch that comes twice counts once") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const std::vector<Cost> costs{forward_cost("a", {10, 20})};
  CHECK(database.add_batch({"agent", 1}, sample_fingerprint(), "active", costs).value());
  CHECK_FALSE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", costs).value());
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == statistics_of({10, 20}));
  CHECK(database.add_batch({"other agent", 1}, sample_fingerprint(), "active", costs).value());
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == statistics_of({10, 10, 20, 20}));
}

TEST_CASE("an empty batch counts as stored, too") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  CHECK(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {}).value());
  CHECK_FALSE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
  CHECK(cost_count(database) == 0);
}

TEST_CASE("costs are found after closing and opening again") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  {
    CostDatabase database = open_costs(place.name("c"));
    REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value());
  }
  const CostDatabase database = open_costs(place.name("c"), OpenMode::kReadOnly);
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == statistics_of({7}));
  CHECK_FALSE(find_cost(database, kHash, forward_key("b")).has_value());
  CHECK_FALSE(find_cost(database, "0000", forward_key("a")).has_value());
  CHECK(database.fingerprints().value() == std::vector<Fingerprint>{sample_fingerprint()});
}

TEST_CASE("sources are kept apart, also when costs are read") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {10})}).value());
  REQUIRE(database.add_batch({"agent", 2}, sample_fingerprint(), "passive", {forward_cost("a", {30})}).value());
  CHECK(database.costs(kHash, {}, "active").value().at(0).statistics == statistics_of({10}));
  CHECK(database.costs(kHash, {}, "passive").value().at(0).statistics == statistics_of({30}));
  const auto costs = database.costs(kHash).value();
  REQUIRE(costs.size() == 2);
  CHECK(costs[0].source == parse_cost_source("active"));
  CHECK(costs[0].statistics == statistics_of({10}));
  CHECK(costs[1].source == parse_cost_source("passive"));
  CHECK(costs[1].statistics == statistics_of({30}));
  CHECK(database.rows().value().size() == 2);
  CHECK(cost_count(database) == 2);
}

TEST_CASE("of a cost that several sources have, each has its own values") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const std::string source = "import:nccl-tests";
  REQUIRE(database.add_batch({"b", 1}, sample_fingerprint(), source, {forward_cost("a", {1, 1, 1, 1, 1, 1})}).value());
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == statistics_of({1, 1, 1, 1, 1, 1}));
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "passive", {forward_cost("a", {30})}).value());
  CHECK(find_cost(database, kHash, forward_key("a"), "passive")->statistics == statistics_of({30}));
  CHECK(find_cost(database, kHash, forward_key("a"), source)->source.name == "nccl-tests");
}

TEST_CASE("values that two releases wrote of one source are one cost") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  REQUIRE(database.add_batch({"a", 1}, sample_fingerprint(), "active", {forward_cost("a", {10})}).value());
  REQUIRE(database.add_batch({"a", 2}, sample_fingerprint(), "benchmark", {forward_cost("a", {30})}).value());
  const auto costs = database.costs(kHash).value();
  REQUIRE(costs.size() == 1);
  CHECK(costs[0].statistics == statistics_of({10, 30}));
}

TEST_CASE("costs are asked for by kind, and come in the order of their keys") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
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
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint("x"), "active", {forward_cost("a", {10})}).value());
  REQUIRE(database.add_batch({"agent", 2}, sample_fingerprint("y"), "active", {forward_cost("a", {99})}).value());
  CHECK(database.costs(hash(sample_fingerprint("x"))).value().at(0).statistics == statistics_of({10}));
  CHECK(database.fingerprints().value().size() == 2);
}

TEST_CASE("one key that a batch names twice, or spells in two ways, is one cost") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const Cost bare{{CostKind::kCollective, "all_reduce", "", 0, 1, "default", 64, 2, ""}, statistics_of({1})};
  Cost full = bare;
  full.key.placement = "intra_node";
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {bare, full, bare}).value());
  CHECK(cost_count(database) == 1);
  CHECK(find_cost(database, kHash, bare.key)->statistics == statistics_of({1, 1, 1}));
}

TEST_CASE("names of any bytes are stored as they are") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const std::string name("a'b\"\0caf\xe9;--", 12);
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost(name, {5})}).value());
  CHECK(find_cost(database, kHash, forward_key(name))->statistics == statistics_of({5}));
  CHECK(database.costs(kHash).value().at(0).key.subject == name);
}

TEST_CASE("a batch without an origin or a source, or with a number beyond 2^63, is refused") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  CHECK(database.add_batch({"", 1}, sample_fingerprint(), "active", {}).error().kind == ErrorKind::kBadInput);
  CHECK(database.add_batch({"agent", 1}, sample_fingerprint(), "", {}).error().kind == ErrorKind::kBadInput);
  CHECK_FALSE(database.add_batch({"agent", ~std::uint64_t{0}}, sample_fingerprint(), "active", {}).ok());
  constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  CHECK(database.add_batch({"agent", kLast}, sample_fingerprint(), "active", {}).value());
}

TEST_CASE("a batch that can never be stored leaves no gap behind which nothing is folded") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  for (std::uint64_t number = 1; number <= 64; ++number) {
    const BatchId batch{"agent", number};
    if (number == 7) {
      const CostBatch lost{batch, std::nullopt, "refused", {}};
      REQUIRE(database.add_batches({&lost, 1}).ok());
      REQUIRE(database.add_batches({&lost, 1}).ok());
      CHECK_FALSE(database.add_batch(batch, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
    } else {
      REQUIRE(database.add_batch(batch, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
    }
  }
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics.count() == 63);
  const auto tables = Database::open(place.name("c"), DatabaseMode::kReadOnly, cost_tables::migrations());
  REQUIRE(tables.ok());
  const std::int64_t folded = as_integer(tables->query("SELECT folded FROM origins").value().at(0)[0]);
  CHECK(folded > 32);
  CHECK(as_integer(tables->query("SELECT count(*) FROM batches").value().at(0)[0]) == 64 - folded);
}

TEST_CASE("many batches of one origin are folded, and each still counts once") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  Statistics expected;
  for (std::uint64_t number = 1; number <= 200; ++number) {
    const auto value = static_cast<std::int64_t>(number * number);
    expected.add(value);
    REQUIRE(
        database.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {value})}).value());
  }
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == expected);
  for (const std::uint64_t number : {1U, 64U, 100U, 192U, 200U}) {
    CHECK_FALSE(
        database.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
  }
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == expected);
  // Number 0 is never part of what is folded, so it is still new.
  CHECK(database.add_batch({"agent", 0}, sample_fingerprint(), "active", {forward_cost("b", {1})}).value());
}

TEST_CASE("batches of many origins are stored together, each of them once") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const auto batch = [](const char* origin, std::uint64_t number, const char* cpu, std::int64_t value) {
    return CostBatch{{origin, number}, sample_fingerprint(cpu), "passive", {forward_cost("a", {value})}};
  };
  REQUIRE(database.add_batch({"b", 1}, sample_fingerprint(), "passive", {forward_cost("a", {100})}).value());
  // One is known, and one comes twice.
  const std::vector<CostBatch> group{batch("a", 1, "x", 1), batch("b", 1, "x", 2), batch("b", 2, "x", 4),
                                     batch("b", 2, "x", 8), batch("c", 7, "y", 16)};
  CHECK(database.add_batches(group).value() == std::vector<bool>{true, false, true, false, true});
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == statistics_of({100, 1, 4}));
  CHECK(database.costs(hash(sample_fingerprint("y"))).value().at(0).statistics == statistics_of({16}));
  CHECK(database.add_batches(group).value() == std::vector<bool>(5, false));
  CHECK(database.add_batches({}).value().empty());
}

TEST_CASE("of batches that are stored together all are, or none") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const std::vector<CostBatch> group{{{"a", 1}, sample_fingerprint(), "active", {forward_cost("a", {1})}},
                                     {{"", 1}, sample_fingerprint(), "active", {}}};
  CHECK(database.add_batches(group).error().kind == ErrorKind::kBadInput);
  CHECK(cost_count(database) == 0);
  CHECK(database.add_batch({"a", 1}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
}

// Each origin is folded at numbers of its own, and what is folded is folded again.
TEST_CASE("origins whose batches come side by side are folded, and each batch still counts once") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  Statistics expected;
  std::vector<CostBatch> group;
  for (std::uint64_t number = 1; number <= 150; ++number) {
    group.clear();
    for (std::uint64_t origin = 0; origin < 4; ++origin) {
      const auto value = static_cast<std::int64_t>(number * (origin + 1));
      expected.add(value);
      group.push_back({{"agent" + std::to_string(origin), number},
                       sample_fingerprint(),
                       "passive",
                       {forward_cost("a", {value}), forward_cost("only" + std::to_string(number / 50), {1})}});
    }
    REQUIRE(database.add_batches(group).value() == std::vector<bool>(4, true));
  }
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == expected);
  CHECK(find_cost(database, kHash, forward_key("only0"))->statistics.count() == 4 * 49);
  CHECK(database.add_batches(group).value() == std::vector<bool>(4, false));
  CHECK(cost_count(database) == 5);
}

TEST_CASE("a fact is what was put last") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  CHECK_FALSE(database.fact(kHash, "calibration").value().has_value());
  REQUIRE(database.put_fact(kHash, "calibration", R"({"a":1})").ok());
  REQUIRE(database.put_fact(kHash, "calibration", R"({"a":0})").ok());
  CHECK(database.fact(kHash, "calibration").value() == R"({"a":0})");
  CHECK_FALSE(database.fact("other", "calibration").value().has_value());
}

TEST_CASE("a database that is open for reading takes no batch") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  (void)open_costs(place.name("c"));
  CostDatabase database = open_costs(place.name("c"), OpenMode::kReadOnly);
  const auto result = database.add_batch({"agent", 1}, sample_fingerprint(), "active", {});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::kUnavailable);
}

TEST_CASE("a reader sees whole batches while a writer goes on") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase writer = open_costs(place.name("c"));
  const CostDatabase reader = open_costs(place.name("c"), OpenMode::kReadOnly);
  for (std::uint64_t number = 1; number <= 70; ++number) {
    REQUIRE(writer.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
    REQUIRE(find_cost(reader, kHash, forward_key("a"))->statistics.count() == number);
  }
}

// Batches one by one, one of them empty, a folded sum, and a gap.
TEST_CASE("a cost database of an earlier layout keeps each batch, folded or not, and goes on from there") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  {
    Migrations earlier = cost_tables::migrations();
    earlier.steps.resize(2);
    earlier.server_steps.resize(1);
    earlier.checked.clear();
    Database old = Database::open(place.name("c"), DatabaseMode::kCreate, earlier).value();
    const auto run = [&](const std::string& sql, const Row& arguments) { REQUIRE(old.execute(sql, arguments).ok()); };
    run("INSERT INTO fingerprints VALUES (?, ?)", {kHash, to_json(sample_fingerprint())});
    run("INSERT INTO origins (name, folded) VALUES (?, 64)", {"agent"});
    run("INSERT INTO batches VALUES (1, 65), (1, 66), (1, 70)", {});
    for (const char* subject : {"a", "b"}) {
      const CostKey key = forward_key(subject);
      run("INSERT INTO cost_keys (kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, "
          "algorithm, "
          "protocol, channels, kernel_class) VALUES ('operator_forward', ?, ?, ?, 1, ?, 0, 0, '', '', '', 0, '')",
          {key.subject, key.dtype, std::int64_t{key.samples}, key.sharding});
    }
    const auto cost = [&](std::int64_t key, std::int64_t number, const std::vector<std::int64_t>& values) {
      run("INSERT INTO costs VALUES (?, ?, 'passive', 1, ?, ?)", {kHash, key, number, statistics_of(values).encode()});
    };
    cost(1, -1, {1, 2});
    cost(1, 65, {4});
    cost(2, 65, {8});
    cost(1, 70, {16});
  }
  CostDatabase database = open_costs(place.name("c"), OpenMode::kReadWrite);
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == statistics_of({1, 2, 4, 16}));
  CHECK(find_cost(database, kHash, forward_key("b"))->statistics == statistics_of({8}));
  for (const std::uint64_t number : {1U, 64U, 65U, 66U, 70U}) {
    CHECK_FALSE(
        database.add_batch({"agent", number}, sample_fingerprint(), "passive", {forward_cost("a", {5})}).value());
  }
  for (std::uint64_t number = 67; number <= 200; ++number) {
    const Cost cost = forward_cost("b", {1});
    CHECK(database.add_batch({"agent", number}, sample_fingerprint(), "passive", {cost}).value() == (number != 70));
  }
  CHECK(find_cost(database, kHash, forward_key("a"))->statistics == statistics_of({1, 2, 4, 16}));
  CHECK(find_cost(database, kHash, forward_key("b"))->statistics.count() == 1 + 133);
}
