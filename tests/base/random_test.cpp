#include "base/random.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("a seed gives the published numbers of xoshiro256** seeded through splitmix64") {
  // From the authors' C sources, with splitmix64 started at 0.
  Random random(0);
  CHECK(random.next() == 0x99ec5f36cb75f2b4U);
  CHECK(random.next() == 0xbf6e1f784956452aU);
  CHECK(random.next() == 0x1a5f849d4933e6e0U);
}

TEST_CASE("a copy of a generator continues the same stream") {
  Random random(7);
  (void)random.next();
  Random copy = random;
  for (int i = 0; i < 10; ++i) CHECK(copy.next() == random.next());
}

TEST_CASE("numbers below a bound reach every value and never the bound") {
  Random random(1);
  std::array<int, 6> seen{};
  for (int i = 0; i < 6000; ++i) ++seen.at(random.below(6));
  for (const int count : seen) CHECK(count > 800);
}

TEST_CASE("an interval over all integers is allowed and includes both ends") {
  Random random(2);
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHigh = std::numeric_limits<std::int64_t>::max();
  bool negative = false;
  bool positive = false;
  for (int i = 0; i < 100; ++i) (random.between(kLow, kHigh) < 0 ? negative : positive) = true;
  CHECK((negative && positive));
  CHECK(random.between(-3, -3) == -3);
}

TEST_CASE("uniform numbers stay in [0, 1) and average one half") {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = random.uniform();
    REQUIRE((value >= 0 && value < 1));
    sum += value;
  }
  CHECK(std::abs(sum / 10000 - 0.5) < 0.02);
}

TEST_CASE("normal numbers have mean 0 and deviation 1") {
  Random random(4);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 20000; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / 20000) < 0.03);
  CHECK(std::abs(squares / 20000 - 1) < 0.05);
}
