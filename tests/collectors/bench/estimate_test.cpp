#include "repetition.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using trimtab::Random;
using namespace trimtab::bench;

TEST_CASE("medians", "[gpu_bench]") {
  CHECK(median({3}) == 3);
  CHECK(median({4, 1}) == 2.5);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({9, 1, 5, 7}) == 6);
}

TEST_CASE("the bootstrap interval holds the true median about as often as it says", "[gpu_bench]") {
  constexpr int kTrials = 300;
  Random random(11);
  int held = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 40; ++i) values.push_back(1.2 + 0.05 * random.normal());
    const Estimate estimate = bootstrap_median(values, random);
    REQUIRE(estimate.low <= estimate.value);
    REQUIRE(estimate.value <= estimate.high);
    held += estimate.low <= 1.2 && 1.2 <= estimate.high ? 1 : 0;
  }
  CAPTURE(held);
  CHECK(held >= kTrials * 90 / 100);  // 95 % less what the percentile method and 300 trials leave open
  CHECK(held < kTrials);
}

TEST_CASE("the same seed gives the same interval", "[gpu_bench]") {
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 9};
  Random first(5);
  Random second(5);
  const Estimate one = bootstrap_median(values, first);
  const Estimate two = bootstrap_median(values, second);
  CHECK(one.low == two.low);
  CHECK(one.high == two.high);
}

TEST_CASE("precision is the t interval's", "[gpu_bench]") {
  CHECK_FALSE(precise_enough(std::vector<double>{1.0}, 1.0));
  CHECK(precise_enough(std::vector<double>{5, 5}, 0.01));
  // Half width 12.71 * 0.0707 / sqrt(2) = 0.635.
  CHECK_FALSE(precise_enough(std::vector<double>{0.95, 1.05}, 0.63));
  CHECK(precise_enough(std::vector<double>{0.95, 1.05}, 0.64));
}
