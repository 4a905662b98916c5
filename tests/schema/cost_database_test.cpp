#include "schema/cost_database.hpp"

#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sample_costs.hpp"
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
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({10, 20}));
  CHECK(database.add_batch({"other agent", 1}, sample_fingerprint(), "active", costs).value());
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({10, 10, 20, 20}));
}

TEST_CASE("an empty batch counts as stored, too") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  CHECK(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {}).value());
  CHECK_FALSE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
  CHECK(database.cost_count().value() == 0);
}

TEST_CASE("costs are found after closing and opening again") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  {
    CostDatabase database = open_costs(place.name("c"));
    REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost("a", {7})}).value());
  }
  const CostDatabase database = open_costs(place.name("c"), OpenMode::kReadOnly);
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == statistics_of({7}));
  CHECK_FALSE(database.find(kHash, forward_key("b")).value().has_value());
  CHECK_FALSE(database.find("0000", forward_key("a")).value().has_value());
  CHECK(database.fingerprints().value() == std::vector<Fingerprint>{sample_fingerprint()});
}

TEST_CASE("sources are kept apart, and merged where none is named") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
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
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
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
  CHECK(database.cost_count().value() == 1);
  CHECK(database.find(kHash, bare.key).value()->statistics == statistics_of({1, 1, 1}));
}

TEST_CASE("names of any bytes are stored as they are") {
  const DatabasePlace place(GENERATE(from_range(backends())));
  CostDatabase database = open_costs(place.name("c"));
  const std::string name("a'b\"\0caf\xe9;--", 12);
  REQUIRE(database.add_batch({"agent", 1}, sample_fingerprint(), "active", {forward_cost(name, {5})}).value());
  CHECK(database.find(kHash, forward_key(name)).value()->statistics == statistics_of({5}));
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
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == expected);
  for (const std::uint64_t number : {1U, 64U, 100U, 192U, 200U}) {
    CHECK_FALSE(
        database.add_batch({"agent", number}, sample_fingerprint(), "active", {forward_cost("a", {1})}).value());
  }
  CHECK(database.find(kHash, forward_key("a")).value()->statistics == expected);
  // Number 0 is never part of what is folded, so it is still new.
  CHECK(database.add_batch({"agent", 0}, sample_fingerprint(), "active", {forward_cost("b", {1})}).value());
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
    REQUIRE(reader.find(kHash, forward_key("a")).value()->statistics.count() == number);
  }
}
