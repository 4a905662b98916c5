#include "card/stretches.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// Values around a median of 1, with a tail; each depends on the last one by `memory`.
std::vector<double> series(Random& random, std::size_t count, double memory) {
  std::vector<double> all;
  double state = 0;
  for (std::size_t i = 0; i < count; ++i) {
    state = memory * state + std::sqrt(1 - memory * memory) * random.normal();
    all.push_back(std::exp(0.3 * state));
  }
  return all;
}

double coverage(std::size_t count, double memory, std::uint64_t seed) {
  Random random(seed);
  constexpr int kTimes = 1000;
  int covered = 0;
  for (int i = 0; i < kTimes; ++i) {
    const Estimate one = estimate_of(series(random, count, memory));
    covered += one.low <= 1 && 1 <= one.high ? 1 : 0;
  }
  return static_cast<double>(covered) / kTimes;
}

}  // namespace

TEST_CASE("a median's interval holds as often as it says, of few steps and of many") {
  CHECK(coverage(18, 0, 1) > 0.94);
  CHECK(coverage(60, 0, 2) > 0.94);
  CHECK(coverage(400, 0, 3) > 0.94);
}

TEST_CASE("it nearly does where a disturbance lasts for some steps") {
  CHECK(coverage(400, 0.7, 4) > 0.90);
}

TEST_CASE("outliers move neither the value nor the interval far") {
  Random random(5);
  std::vector<double> values = series(random, 200, 0);
  const Estimate before = estimate_of(values);
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = 1000;
  const Estimate after = estimate_of(values);
  CHECK(after.value == Approx(before.value).epsilon(0.15));
  CHECK(after.high < 2);
}

TEST_CASE("a share that comes in bursts is seen by sums, where most steps have nothing of it") {
  std::vector<double> parts;
  const std::vector<double> wholes(200, 10);
  for (int i = 0; i < 200; ++i) parts.push_back(i % 4 == 0 ? 8 : 0);
  const Estimate one = estimate_of_sums(parts, wholes);
  CHECK(one.value == Approx(0.2).margin(0.05));
  CHECK(one.low > 0.1);
}

TEST_CASE("medians and quantiles of few values") {
  CHECK(median_of({3}) == 3);
  CHECK(median_of({4, 1}) == 2.5);
  CHECK(median_of({9, 1, 4}) == 4);
  CHECK(quantile_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0.9) == 10);
  CHECK(quantile_of({7}, 0.9) == 7);
}
