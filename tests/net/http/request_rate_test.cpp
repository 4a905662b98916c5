#include "net/rate.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

TEST_CASE("of a caller five seconds' worth of requests are answered at once, then so many a second") {
  RequestRate rate(10);
  Nanoseconds now = 100s;
  for (int i = 0; i < 50; ++i) CHECK(rate.take("ada", now));
  CHECK_FALSE(rate.take("ada", now));
  CHECK_FALSE(rate.take("ada", now));  // what was refused does not count
  now += 100ms;
  CHECK(rate.take("ada", now));
  CHECK_FALSE(rate.take("ada", now));
}

TEST_CASE("one request may cost as much as several, at most a burst") {
  RequestRate rate(10, 2s);
  CHECK(rate.take("ada", 1s, 15));
  CHECK_FALSE(rate.take("ada", 1s, 6));
  CHECK(rate.take("ada", 1s, 5));
  CHECK(rate.take("bob", 1s, 1'000'000));
  CHECK_FALSE(rate.take("bob", 1s));
}

TEST_CASE("what one caller asks takes nothing from another") {
  RequestRate rate(1);
  for (int i = 0; i < 5; ++i) CHECK(rate.take("ada", 1s));
  CHECK_FALSE(rate.take("ada", 1s));
  CHECK(rate.take("bob", 1s));
}

TEST_CASE("callers beyond the most that are remembered share one allowance, until earlier ones are forgotten") {
  RequestRate rate(1);
  for (std::size_t i = 0; i < RequestRate::kMostCallers; ++i) CHECK(rate.take(std::to_string(i), 1s));
  for (int i = 0; i < 5; ++i) CHECK(rate.take("new " + std::to_string(i), 1s));
  CHECK_FALSE(rate.take("new 6", 1s));
  CHECK(rate.callers() == RequestRate::kMostCallers);
  CHECK(rate.take("new 7", 10s));
  CHECK(rate.callers() == 1);
}
