#include "base/clock.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("a manual clock moves only when told to") {
  ManualClock clock;
  const Nanoseconds start = clock.monotonic();
  CHECK(clock.monotonic() == start);
  clock.advance(std::chrono::seconds(2));
  CHECK(clock.monotonic() - start == std::chrono::seconds(2));
}

TEST_CASE("a jump of the wall clock leaves monotonic time alone") {
  ManualClock clock;
  const Nanoseconds monotonic = clock.monotonic();
  const Nanoseconds wall = clock.wall();
  clock.jump_wall(std::chrono::hours(-1));
  CHECK(clock.monotonic() == monotonic);
  CHECK(clock.wall() == wall - std::chrono::hours(1));
}

TEST_CASE("the system's monotonic clock does not go back") {
  const SystemClock clock;
  const Nanoseconds first = clock.monotonic();
  CHECK(clock.monotonic() >= first);
}
