#include "own_use.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace trimtab;
using namespace trimtab::coordinator;
using namespace std::chrono_literals;

namespace {

struct Watched {
  ManualClock clock;
  OwnUse use;
  std::vector<std::string> warnings;
  OwnUseWatch watch{{.memory = 1000, .cores = 0.5, .disk = 2000, .costs = 2048},
                    clock,
                    [this] { return use; },
                    [this](const std::string& line) { warnings.push_back(line); }};

  // So many seconds in which it takes so many cores.
  void pass(int seconds, double cores = 0) {
    for (int i = 0; i < seconds; ++i) {
      clock.advance(1s);
      use.cpu_seconds += cores;
      watch.tick();
    }
  }
};

}  // namespace

TEST_CASE("memory and disk beyond the budget are told once, and once more when they are within it again") {
  Watched one;
  one.use.memory_bytes = 999;
  one.use.disk_bytes = 2000;
  one.pass(20);
  CHECK(one.warnings.empty());
  one.use.memory_bytes = 1001;
  one.pass(60);
  REQUIRE(one.warnings.size() == 1);
  CHECK_THAT(one.warnings[0], Catch::Contains("memory") && Catch::Contains("raise memory_budget"));
  CHECK(one.watch.over().at("memory"));
  CHECK_FALSE(one.watch.over().at("disk"));
  one.use.memory_bytes = 10;
  one.use.disk_bytes = 2001;
  one.pass(20);
  REQUIRE(one.warnings.size() == 3);
  CHECK_THAT(one.warnings[1], Catch::Contains("within its budget of memory again"));
  CHECK_THAT(one.warnings[2], Catch::Contains("raise disk_budget"));
}

TEST_CASE("no costs are to be stored while their database takes more than it may") {
  Watched one;
  CHECK(one.watch.check_room_for_costs().ok());
  one.use.cost_bytes = 2048;
  one.pass(20);
  CHECK(one.watch.check_room_for_costs().ok());
  one.use.cost_bytes = 4096;
  one.pass(20);
  REQUIRE(one.warnings.size() == 1);
  CHECK_THAT(one.warnings[0], Catch::Contains("costs") && Catch::Contains("raise costs_limit"));
  const Status room = one.watch.check_room_for_costs();
  REQUIRE_FALSE(room.ok());
  CHECK(room.error().kind == ErrorKind::kUnavailable);
  CHECK_THAT(room.error().message, Catch::Contains("4.00 KiB of the 2.00 KiB that it may (costs_limit)"));
  one.use.cost_bytes = 10;
  one.pass(20);
  CHECK(one.watch.check_room_for_costs().ok());
}

TEST_CASE("processor time counts over a whole minute, so that one search is no excess") {
  Watched one;
  one.use.cpu_seconds = 1e6;  // before the first look
  one.pass(1);
  one.pass(5, 4);
  one.pass(55);
  CHECK(one.watch.cpu_cores() < 0.5);
  CHECK(one.warnings.empty());
  one.pass(70, 1);
  CHECK(one.watch.cpu_cores() > 0.5);
  REQUIRE(one.warnings.size() == 1);
  CHECK_THAT(one.warnings[0], Catch::Contains("cpu") && Catch::Contains("raise cpu_budget"));
}

TEST_CASE("what this process takes is measured") {
  const OwnUse use = measure_own_use({});
  CHECK(use.memory_bytes > 1e6);
  CHECK(use.cpu_seconds > 0);
  CHECK(use.disk_bytes == 0);
}
