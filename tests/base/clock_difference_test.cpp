// The estimate against clocks that are made up: an offset, a drift, and delays that are never negative.

#include "base/clock_difference.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

#include "base/random.hpp"

using namespace trimtab;

namespace {

constexpr std::uint64_t kHost = 1'700'000'000'000'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;

// A GPU whose clock is so far ahead and gains so much; the host sees its stamps late, and asks for work early.
struct Clocks {
  double ahead_ns = 0;
  double drift = 0;
  double seen_late_ns = 2'000;  // at least; often ten times that
  double asked_early_ns = 9'000;
  std::uint64_t seed = std::random_device{}();
  Random random{seed};
  ClockDifference clock = {};

  [[nodiscard]] std::int64_t truth(std::uint64_t host_ns) const {
    return std::llround(ahead_ns + drift * static_cast<double>(host_ns - kHost));
  }
  [[nodiscard]] std::uint64_t gpu_at(std::uint64_t host_ns) const {
    return host_ns + static_cast<std::uint64_t>(truth(host_ns));
  }
  double delay(double least) {
    const auto draw = static_cast<double>(random.below(1'000'000)) / 1e6;
    return least * (1 + 10 * draw * draw * draw);
  }
  // What a second of collectives says: the tightest of its bounds.
  void second(std::uint64_t host_ns, bool both = true) {
    const std::uint64_t gpu_ns = gpu_at(host_ns);
    double late = 1e9;
    double early = 1e9;
    for (int i = 0; i < 50; ++i) {
      late = std::min(late, delay(seen_late_ns));
      early = std::min(early, delay(asked_early_ns));
    }
    clock.add(gpu_ns, truth(host_ns) - std::llround(late), true);
    if (both) clock.add(gpu_ns, truth(host_ns) + std::llround(early), false);
  }
};

}  // namespace

TEST_CASE("skew and drift are found, and the truth lies within the uncertainty that is said") {
  for (const double drift : {0.0, 35e-6, -120e-6, 400e-6}) {
    for (const double ahead : {0.0, 3.7e9, -1.6e18}) {
      Clocks clocks{ahead, drift};
      INFO("drift " << drift << " ahead " << ahead << " seed " << clocks.seed);
      for (std::uint64_t second = 0; second < 90; ++second) {
        const std::uint64_t host_ns = kHost + second * kSecond;
        clocks.second(host_ns);
        // Used until the next second's bounds come.
        for (const std::uint64_t later : {host_ns, host_ns + kSecond}) {
          const auto offset = clocks.clock.at(clocks.gpu_at(later));
          REQUIRE(offset);
          const std::int64_t error = std::abs(offset->ns - clocks.truth(later));
          const std::int64_t rounded = std::abs(ahead) > 1e18 ? 300 : 1;  // what a double holds of it
          CHECK(error <= static_cast<std::int64_t>(offset->uncertainty_ns) + rounded);
          if (second < 10) continue;  // a drift shows after a while
          CHECK(error < 8'000);
          CHECK(offset->uncertainty_ns < 12'000);
        }
      }
    }
  }
}

TEST_CASE("the first bounds are used at once, as far as they go") {
  ClockDifference clock;
  CHECK_FALSE(clock.at(5));
  clock.add(1000, 400, true);
  const auto low = clock.at(1000);
  REQUIRE(low);
  CHECK(low->ns == 400 + ClockDifference::kOneSidedNs / 2);
  CHECK(low->uncertainty_ns == ClockDifference::kOneSidedNs / 2);
  clock.add(1000, 500, false);
  CHECK(clock.at(1000)->ns == 450);
  CHECK(clock.at(1000)->uncertainty_ns == 50);
}

TEST_CASE("a drift that changes is followed, and the truth stays within the uncertainty but for the change itself") {
  for (const double change : {300e-6, -60e-6}) {
    Clocks clocks{-4e8, 10e-6};
    INFO("change " << change << " seed " << clocks.seed);
    for (std::uint64_t second = 0; second < 60; ++second) clocks.second(kHost + second * kSecond);
    // The clock goes on from where it is.
    clocks.ahead_ns -= change * 60e9;
    clocks.drift += change;
    for (std::uint64_t second = 60; second < 120; ++second) {
      const std::uint64_t host_ns = kHost + second * kSecond;
      clocks.second(host_ns);
      if (second < 63) continue;
      const auto offset = clocks.clock.at(clocks.gpu_at(host_ns));
      CHECK(std::abs(offset->ns - clocks.truth(host_ns)) <= static_cast<std::int64_t>(offset->uncertainty_ns) + 1);
    }
  }
}

TEST_CASE("a clock that is set is followed within a second") {
  Clocks clocks{5e9, 20e-6};
  INFO("seed " << clocks.seed);
  for (std::uint64_t second = 0; second < 20; ++second) clocks.second(kHost + second * kSecond);
  for (const double step : {-3e9, 8e9}) {
    clocks.ahead_ns += step;
    const std::uint64_t host_ns = kHost + 21 * kSecond;
    clocks.second(host_ns);
    clocks.second(host_ns + 1000);
    CHECK(std::abs(clocks.clock.at(clocks.gpu_at(host_ns))->ns - clocks.truth(host_ns)) < 30'000);
  }
}

TEST_CASE("bounds that contradict each other a little widen the uncertainty") {
  ClockDifference clock;
  clock.add(1000, 500, true);
  clock.add(1000, 300, false);  // the work began before the host says that it asked
  CHECK(clock.at(1000)->ns == 400);
  CHECK(clock.at(1000)->uncertainty_ns == 100);
}

TEST_CASE("whatever a process writes, nothing overflows") {
  Random random(7);
  ClockDifference clock;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t wild = random.below(std::numeric_limits<std::uint64_t>::max());
    clock.add(wild, static_cast<std::int64_t>(wild * 3), random.below(2) == 0);
    CHECK(clock.at(wild * 5));
  }
}
