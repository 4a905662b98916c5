#include "base/clock_agreement.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kAge = 24h * 30;

struct Fixture {
  Nanoseconds pass(Nanoseconds time, Nanoseconds jump = Nanoseconds(0)) {
    clock.advance(time);
    clock.jump_wall(jump);
    return agreement.look(clock.monotonic(), clock.wall());
  }
  [[nodiscard]] bool tells(Nanoseconds age = kAge) const { return agreement.tells(age, clock.monotonic()); }

  ManualClock clock;
  ClockAgreement agreement{clock.monotonic(), clock.wall()};
};

}  // namespace

TEST_CASE("ages are told a day after the start, or after the age itself where that is less") {
  Fixture fixture;
  CHECK_FALSE(fixture.tells());
  CHECK(fixture.pass(5min) == 0ns);
  CHECK(fixture.tells(5min));
  CHECK_FALSE(fixture.tells(6min));
  fixture.pass(24h - 6min);
  CHECK_FALSE(fixture.tells());
  fixture.pass(1min);
  CHECK(fixture.tells());
}

TEST_CASE("a jump of the wall clock, either way, is told once and begins the day anew") {
  for (const Nanoseconds jump : {Nanoseconds(24h * 365), Nanoseconds(-2h)}) {
    Fixture fixture;
    fixture.pass(48h);
    REQUIRE(fixture.tells());
    CHECK(fixture.pass(1s, jump) == jump);
    CHECK_FALSE(fixture.tells());
    CHECK(fixture.pass(23h) == 0ns);
    CHECK_FALSE(fixture.tells());
    fixture.pass(1h);
    CHECK(fixture.tells());
    CHECK(fixture.pass(1s, -jump) == -jump);
    CHECK_FALSE(fixture.tells());
  }
}

TEST_CASE("small steps are no jump until they add up to one") {
  Fixture fixture;
  fixture.pass(24h, 30min);
  CHECK(fixture.tells());
  CHECK(fixture.pass(1h, 30min) == 0ns);
  CHECK(fixture.pass(1h, 1s) == 1h + 1s);
  CHECK_FALSE(fixture.tells());
}
