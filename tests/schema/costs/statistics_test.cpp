#include "schema/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.hpp"

using namespace trimtab;

namespace {

Statistics statistics_of(const std::vector<std::int64_t>& values) {
  Statistics statistics;
  for (const std::int64_t value : values) statistics.add(value);
  return statistics;
}

std::vector<std::int64_t> random_values(Random& random, std::size_t count) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < count; ++i) {
    // Every order of magnitude, zero included.
    const auto bits = static_cast<int>(random.below(61));
    values.push_back(static_cast<std::int64_t>(random.below(std::uint64_t{1} << bits)));
  }
  return values;
}

constexpr std::int64_t kMost = std::int64_t{1} << 60;

}  // namespace

TEST_CASE("the moments of a few values are those of the textbook") {
  const Statistics statistics = statistics_of({2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(statistics.count() == 8);
  CHECK(statistics.min() == 2);
  CHECK(statistics.max() == 9);
  CHECK(statistics.mean() == 5.0);
  CHECK(statistics.variance() == Approx(32.0 / 7.0));
  CHECK(statistics.standard_error() == Approx(std::sqrt(32.0 / 7.0 / 8.0)));
}

TEST_CASE("one value has no variance, and is every quantile") {
  const Statistics statistics = statistics_of({123456789});
  CHECK(statistics.variance() == 0);
  CHECK(statistics.quantile(0) == 123456789);
  CHECK(statistics.median() == 123456789);
  CHECK(statistics.quantile(1) == 123456789);
}

TEST_CASE("the variance of large values with small differences is exact") {
  std::vector<std::int64_t> values;
  for (int i = 0; i < 1000; ++i) values.push_back(1'000'000'000'000'000 + i % 2);
  CHECK(statistics_of(values).variance() == Approx(250.0 / 999.0).epsilon(1e-12));
}

TEST_CASE("splitting values anyhow and merging in any order gives the same bits") {
  const std::uint64_t seed = Catch::rngSeed() == 0 ? 20260101 : Catch::rngSeed();
  INFO("seed " << seed);
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    const auto values = random_values(random, 1 + random.below(200));
    std::vector<Statistics> parts(1 + random.below(8));
    for (const std::int64_t value : values) parts[random.below(parts.size())].add(value);
    while (parts.size() > 1) {
      const std::size_t from = random.below(parts.size());
      const Statistics taken = parts[from];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(from));
      parts[random.below(parts.size())].merge(taken);
    }
    REQUIRE(parts[0] == statistics_of(values));
    REQUIRE(parts[0].encode() == statistics_of(values).encode());
  }
}

TEST_CASE("quantiles are within 1 % of a value of that rank") {
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    auto values = random_values(random, 1 + random.below(500));
    const Statistics statistics = statistics_of(values);
    std::sort(values.begin(), values.end());
    for (const double q : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
      const auto exact =
          static_cast<double>(values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))]);
      INFO("q " << q << ", exact " << exact << ", estimate " << statistics.quantile(q));
      REQUIRE(std::abs(statistics.quantile(q) - exact) <= 0.01 * exact);
    }
  }
}

TEST_CASE("merging with nothing changes nothing") {
  Statistics statistics = statistics_of({5, 6});
  statistics.merge(Statistics());
  CHECK(statistics == statistics_of({5, 6}));
  Statistics empty;
  empty.merge(statistics);
  CHECK(empty == statistics);
  CHECK(empty.min() == 5);
}

TEST_CASE("values beyond 2^60 are capped") {
  const Statistics statistics = statistics_of({std::numeric_limits<std::int64_t>::max()});
  CHECK(statistics.max() == kMost);
  CHECK(statistics == statistics_of({kMost}));
}

TEST_CASE("squares saturate after 255 of the largest values, and the variance says so") {
  Statistics statistics;
  for (int i = 0; i < 255; ++i) statistics.add(kMost);
  CHECK(statistics.variance() == 0);
  for (int i = 0; i < 2; ++i) statistics.add(kMost);
  CHECK(std::isinf(statistics.variance()));
  CHECK(statistics.mean() == static_cast<double>(kMost));
}

TEST_CASE("saturated statistics still merge in any order to the same bits") {
  Statistics large;
  for (int i = 0; i < 300; ++i) large.add(kMost);
  const Statistics small = statistics_of({1, 2, 3});
  Statistics one = large;
  one.merge(small);
  Statistics other = small;
  other.merge(large);
  CHECK(one.encode() == other.encode());
}
