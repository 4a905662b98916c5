#include "jobs/retention.hpp"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <string>

#include "base/clock.hpp"
#include "costs/cost_tables.hpp"
#include "schema/cost.hpp"
#include "schema/database.hpp"
#include "schema/fingerprint.hpp"
#include "tested_backends.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kAll = 10'000;

struct World {
  explicit World(test::Backend backend) : place(backend) { spdlog::set_level(spdlog::level::off); }

  void send(const std::string& origin, std::uint64_t number) {
    Cost cost;
    cost.key.kind = CostKind::kRange;
    cost.key.subject = "a";
    cost.statistics.add(7);
    Fingerprint fingerprint;
    fingerprint.device["gpu"] = "x";
    REQUIRE(costs.add_batch({origin, number}, fingerprint, "passive", {cost}).value());
    hash = trimtab::hash(fingerprint);
    key = cost.key;
  }
  // Until there is nothing to do now.
  void fold() {
    for (int slices = 0; idle.fold_some().value(); ++slices) REQUIRE(slices < 1000);
  }
  std::size_t unfolded() const { return costs.unfolded_origins(0, kAll).value().size(); }
  std::uint64_t counted() const { return costs.costs(hash, {key.kind}).value().at(0).statistics.count(); }

  test::DatabasePlace place;
  CostDatabase costs = CostDatabase::open(place.name("costs"), OpenMode::kCreate).value();
  ManualClock clock;
  IdleOrigins idle{costs, clock};
  std::string hash;
  CostKey key;
};

}  // namespace

TEST_CASE("an origin is folded when nothing came of it for an hour, and one that goes on sending is not") {
  World world(GENERATE(from_range(test::backends())));
  for (std::uint64_t number = 1; number <= 10; ++number) world.send("gone", number);
  world.send("busy", 1);
  world.fold();
  world.clock.advance(IdleOrigins::kIdle - 1s);
  world.fold();
  CHECK(world.unfolded() == 2);
  world.send("busy", 2);
  world.clock.advance(IdleOrigins::kPause);
  world.fold();
  const auto left = world.costs.unfolded_origins(0, kAll).value();
  REQUIRE(left.size() == 1);
  CHECK(left[0].name == "busy");
  CHECK(world.counted() == 12);
  // Back after all.
  world.send("gone", 11);
  CHECK(world.counted() == 13);
  world.clock.advance(IdleOrigins::kPause);
  world.fold();
  world.clock.advance(IdleOrigins::kIdle);
  world.fold();
  CHECK(world.unfolded() == 0);
  CHECK(world.counted() == 13);
}

TEST_CASE("of many origins that are gone no batch stays") {
  World world(GENERATE(from_range(test::backends())));
  constexpr std::size_t kOrigins = 2 * IdleOrigins::kOriginsAtOnce + 3;
  for (std::size_t origin = 0; origin < kOrigins; ++origin) world.send("agent" + std::to_string(origin), 1);
  world.fold();
  const std::size_t before = world.unfolded();  // some were folded when they sent
  REQUIRE(before > kOrigins / 2);
  world.clock.advance(IdleOrigins::kIdle);
  // A slice at a time.
  CHECK(world.idle.fold_some().value());
  CHECK(world.idle.fold_some().value());
  CHECK(world.unfolded() < before);
  CHECK(world.unfolded() >= before - IdleOrigins::kOriginsAtOnce);
  world.fold();
  CHECK(world.unfolded() == 0);
  CHECK(world.counted() == kOrigins);
}

TEST_CASE("a batch that was damaged is left out, and its origin and the others are folded") {
  World world(GENERATE(from_range(test::backends())));
  for (const char* origin : {"a", "b", "c"}) world.send(origin, 1);
  Database raw = Database::open(world.place.name("costs"), DatabaseMode::kReadWrite, cost_tables::migrations()).value();
  const char* change = "UPDATE batches SET costs = ? WHERE origin = (SELECT id FROM origins WHERE name = ?)";
  REQUIRE(raw.execute(change, {std::string("nonsense"), std::string("b")}).ok());
  world.fold();
  for (int rounds = 0; rounds < 3; ++rounds) {
    world.clock.advance(IdleOrigins::kIdle);
    world.fold();
    CHECK(world.costs.unfolded_origins(0, kAll).value().empty());
  }
}

TEST_CASE("what cannot be folded now is told, and is due until it can") {
  World world(GENERATE(from_range(test::backends())));
  world.send("gone", 1);
  CostDatabase reader = CostDatabase::open(world.place.name("costs"), OpenMode::kReadOnly).value();
  IdleOrigins idle(reader, world.clock);
  CHECK_FALSE(idle.fold_some().value());
  world.clock.advance(IdleOrigins::kIdle);
  CHECK(idle.fold_some().value());
  for (int attempts = 0; attempts < 2; ++attempts) {
    const auto attempt = idle.fold_some();
    REQUIRE_FALSE(attempt.ok());
    CHECK(attempt.error().kind == ErrorKind::kUnavailable);
  }
  CHECK(world.unfolded() == 1);
}
