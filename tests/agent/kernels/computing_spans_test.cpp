#include "kernels/time_spans.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using trimtab::agent::ComputingSpans;

TEST_CASE("computing counts once, whatever ran at once and in whichever order it came") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    ComputingSpans spans;
    std::vector<bool> truth(4000);  // in units longer than a gap
    constexpr std::uint64_t kUnit = 10'000;
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t begin = 1 + random() % 3000;
      const std::uint64_t end = begin + 1 + random() % 20;
      spans.add(begin * kUnit, end * kUnit);
      for (std::uint64_t unit = begin; unit < end; ++unit) truth[unit] = true;
      if (i % 3 != 0) continue;  // asked while they come
      (void)spans.computed(0, kUnit);
    }
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t begin = random() % 3000;
      const std::uint64_t end = begin + 1 + random() % 500;
      std::uint64_t computed = 0;
      for (std::uint64_t unit = begin; unit < end; ++unit) computed += truth[unit] ? kUnit : 0;
      REQUIRE(spans.computed(begin * kUnit, end * kUnit) == computed);
    }
  }
}

TEST_CASE("kernels that follow each other closely are one span, and the oldest spans are forgotten") {
  ComputingSpans spans;
  CHECK_FALSE(spans.cover(0, 1));
  for (std::uint64_t i = 0; i < 3 * ComputingSpans::kMost; ++i) spans.add(i * 2000, i * 2000 + 1000);
  CHECK(spans.cover(0, 1000));
  CHECK(spans.computed(0, 10'000) == 10'000);
  for (std::uint64_t i = 0; i < 3 * ComputingSpans::kMost; ++i)
    spans.add(1'000'000'000 + i * 20'000, 1'000'000'100 + i * 20'000);
  CHECK_FALSE(spans.cover(0, 1000));
  CHECK(spans.cover(spans.known_until() - 1'000'000, spans.known_until()));
  CHECK_FALSE(spans.cover(spans.known_until() - 1'000'000, spans.known_until() + 1));
  spans.clear();
  CHECK(spans.known_until() == 0);
}
