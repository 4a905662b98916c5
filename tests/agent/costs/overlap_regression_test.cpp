#include "costs/overlap_regression.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "../interval_95.hpp"
#include "base/random.hpp"
#include "costs/overlap_watch.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

struct World {
  double slowdown = 1.25;
  double noise = 0.05;     // of a duration, as a fraction
  double partial = 0.5;    // how many of those beside are only in part
  double skew = 0;         // of all durations a tail: this fraction is 30 % longer
  int occurrences = 4000;  // half of them beside
};

// A job whose kernels follow the model with the world's slowdown: what is done of the work beside is drawn, the rest
// follows.
Statistics measure(const World& world, std::uint64_t seed) {
  Random random(seed);
  OverlapRegression regression;
  for (int i = 0; i < world.occurrences; ++i) {
    const std::uint32_t signature = static_cast<std::uint32_t>(random.below(3));
    const double base = 100'000.0 * (1 + signature);
    const double own = base * (1 + world.noise * random.normal()) * (random.uniform() < world.skew ? 1.3 : 1.0);
    if (random.below(2) == 0) {
      regression.alone(signature, static_cast<std::uint64_t>(own));
      continue;
    }
    const double f = random.uniform() < world.partial ? 0.2 + 0.8 * random.uniform() : 1.0;
    const double duration = own * (1 + (world.slowdown - 1) * f);
    const double beside = own * f * world.slowdown;
    regression.beside(signature, 1, static_cast<std::uint64_t>(duration), static_cast<std::uint64_t>(beside));
  }
  auto values = regression.take();
  REQUIRE(values.size() == 1);
  return values.at(1);
}

struct Quality {
  double coverage = 0;
  double bias = 0;
  double half_width = 0;
};

Quality quality(const World& world, int seeds) {
  Quality result;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Statistics values = measure(world, static_cast<std::uint64_t>(seed));
    const Interval95 interval = interval_95(values);
    result.coverage += interval.low <= world.slowdown * 1e6 && world.slowdown * 1e6 <= interval.high ? 1 : 0;
    result.bias += interval.mean / 1e6 - world.slowdown;
    result.half_width += (interval.high - interval.mean) / 1e6;
  }
  result.coverage /= seeds;
  result.bias /= seeds;
  result.half_width /= seeds;
  return result;
}

}  // namespace

TEST_CASE("95 % intervals of slowdowns hold the truth about as often as they say") {
  constexpr int kSeeds = 1000;
  struct Case {
    const char* name;
    World world;
  };
  const std::vector<Case> cases = {{"half in part, 5 % noise", {1.25, 0.05, 0.5, 0, 4000}},
                                   {"all in part", {1.25, 0.05, 1.0, 0, 4000}},
                                   {"all whole", {1.25, 0.05, 0.0, 0, 4000}},
                                   {"no slowdown", {1.0, 0.05, 0.5, 0, 4000}},
                                   {"strong", {1.8, 0.05, 0.5, 0, 4000}},
                                   {"10 % noise", {1.25, 0.10, 0.5, 0, 8000}},
                                   {"with a tail", {1.25, 0.05, 0.5, 0.05, 8000}},
                                   {"few", {1.25, 0.02, 0.5, 0, 400}}};
  std::printf("overlap regression, %d seeds each:\n", kSeeds);
  for (const Case& one : cases) {
    const Quality found = quality(one.world, kSeeds);
    std::printf("  %-26s slowdown %.2f: coverage %.3f, bias %+.4f, mean half width %.4f\n", one.name,
                one.world.slowdown, found.coverage, found.bias, found.half_width);
    INFO(one.name);
    CHECK(found.coverage > 0.92);
    CHECK(found.coverage < 0.98);
    CHECK(std::abs(found.bias) < 0.006);
  }
}

TEST_CASE("single durations that nothing explains are left out") {
  Random random(5);
  OverlapRegression regression;
  for (int i = 0; i < 2000; ++i) {
    const double own = 100'000 * (1 + 0.03 * random.normal());
    if (i % 2 == 0) {
      regression.alone(1, static_cast<std::uint64_t>(i % 100 == 50 ? 50 * own : own));
    } else {
      regression.beside(1, 3, static_cast<std::uint64_t>(i % 101 == 50 ? 90 * own : 1.2 * own),
                        static_cast<std::uint64_t>(1.2 * own));
    }
  }
  CHECK(regression.counters().outliers >= 20);
  const auto values = regression.take();
  CHECK(values.at(3).mean() == Approx(1.2e6).epsilon(0.01));
}

TEST_CASE("a base that drifts, as clocks do, does not look like a slowdown") {
  Random random(9);
  OverlapRegression regression;
  for (int i = 0; i < 20'000; ++i) {
    const double own = 100'000 * (1 + 0.4 * i / 20'000) * (1 + 0.02 * random.normal());
    if (random.below(2) == 0) {
      regression.alone(1, static_cast<std::uint64_t>(own));
    } else {
      regression.beside(1, 3, static_cast<std::uint64_t>(1.1 * own), static_cast<std::uint64_t>(1.1 * own));
    }
  }
  CHECK(regression.take().at(3).mean() == Approx(1.1e6).epsilon(0.005));
}

TEST_CASE("a heavy tail that both kinds have does not look like a slowdown") {
  Random random(3);
  OverlapRegression regression;
  for (int i = 0; i < 200'000; ++i) {
    const double own = 100'000 * (1 + 0.03 * random.normal()) * (random.uniform() < 0.02 ? 5 : 1);
    if (random.below(2) == 0) {
      regression.alone(1, static_cast<std::uint64_t>(own));
    } else {
      regression.beside(1, 3, static_cast<std::uint64_t>(1.25 * own), static_cast<std::uint64_t>(1.25 * own));
    }
  }
  CHECK(regression.counters().outliers == 0);
  CHECK(regression.take().at(3).mean() == Approx(1.25e6).epsilon(0.02));
}

TEST_CASE("a base that jumps is learned anew") {
  Random random(4);
  OverlapRegression regression;
  for (int i = 0; i < 4000; ++i) {
    const double own = 100'000 * (i < 1000 ? 1 : 12) * (1 + 0.02 * random.normal());
    if (i == 1000) (void)regression.take();
    if (random.below(2) == 0) {
      regression.alone(1, static_cast<std::uint64_t>(own));
    } else {
      regression.beside(1, 3, static_cast<std::uint64_t>(1.2 * own), static_cast<std::uint64_t>(1.2 * own));
    }
  }
  CHECK(regression.take().at(3).mean() == Approx(1.2e6).epsilon(0.01));
}

TEST_CASE("without enough of both there is no value") {
  OverlapRegression regression;
  for (int i = 0; i < 1000; ++i) regression.beside(1, 3, 120, 120);
  CHECK(regression.take().empty());
  for (int i = 0; i < 7; ++i) regression.alone(1, 100);
  CHECK(regression.take().empty());
  // The pilot says how many make a block: 1000 beside, 8 alone.
  regression.alone(1, 100);
  CHECK(regression.take().empty());
  for (int i = 0; i < 1000; ++i) regression.beside(1, 3, 120, 120);
  for (int i = 0; i < 8; ++i) regression.alone(1, 100);
  CHECK(regression.take().at(3).mean() == Approx(1.2e6));
  CHECK(regression.take().empty());
}

TEST_CASE("subjects without end do not grow the regression") {
  OverlapOptions options;
  options.max_pairs = 10;
  OverlapRegression regression(options);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    regression.alone(i, 100);
    regression.beside(i, 1, 100, 100);
  }
  CHECK(regression.counters().overflow >= 1900);
}

namespace {

DeviceInterval computation(std::uint64_t begin, std::uint64_t end, std::uint32_t subject, std::uint32_t stream = 1) {
  DeviceInterval interval{begin, end, stream, subject, Activity::kComputation};
  interval.kernel_class = KernelClass::kGemm;
  return interval;
}
DeviceInterval communication(std::uint64_t begin, std::uint64_t end, std::uint32_t subject, std::uint32_t stream = 2) {
  return {begin, end, stream, subject, Activity::kCommunication};
}

std::vector<OverlapSeen> watched(const std::vector<DeviceInterval>& intervals, OverlapWatch& watch) {
  std::vector<OverlapSeen> seen;
  for (const DeviceInterval& interval : intervals) {
    for (const OverlapSeen& one : watch.add(interval)) seen.push_back(one);
  }
  for (const OverlapSeen& one : watch.add({1'000'000, 1'000'001})) seen.push_back(one);
  return seen;
}

}  // namespace

TEST_CASE("a kernel is seen alone, beside a collective for a part, and beside two at once") {
  OverlapWatch watch;
  const auto seen = watched({computation(100, 200, 1), communication(300, 450, 9), computation(350, 500, 2),
                             communication(600, 900, 8), communication(600, 900, 9, 3), computation(650, 750, 3)},
                            watch);
  REQUIRE(seen.size() == 4);
  CHECK(seen[0].interval.subject == 1);
  CHECK(seen[0].beside == OverlapSeen::Beside::kNothing);
  // The collective of 150 had the kernel beside it for 100.
  CHECK(seen[1].interval.subject == 9);
  CHECK(seen[1].beside == OverlapSeen::Beside::kComputation);
  CHECK(seen[1].beside_ns == 100);
  CHECK(seen[1].one_class);
  CHECK(seen[1].kernel_class == KernelClass::kGemm);
  CHECK(seen[2].interval.subject == 2);
  CHECK(seen[2].beside == OverlapSeen::Beside::kCommunication);
  CHECK(seen[2].beside_ns == 100);
  CHECK(seen[2].communication_count == 1);
  CHECK(seen[2].communications[0] == 9);
  CHECK(seen[3].interval.subject == 3);
  CHECK(seen[3].communication_count == 2);
  CHECK(seen[3].communications == std::array<std::uint32_t, 2>{8, 9});
  CHECK(seen[3].beside_ns == 100);
  CHECK(watch.counters().mixed == 2);  // each collective had the kernel and the other
}

TEST_CASE("what runs on another device of the process is not beside") {
  OverlapWatch watch;
  DeviceInterval elsewhere = communication(100, 300, 9);
  elsewhere.device = 1;
  const auto seen = watched({elsewhere, computation(150, 250, 1)}, watch);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].beside == OverlapSeen::Beside::kNothing);
  CHECK(seen[1].beside == OverlapSeen::Beside::kNothing);
  elsewhere.device = DeviceInterval::kAnyDevice;
  CHECK(watched({elsewhere, computation(150, 250, 1)}, watch)[0].beside != OverlapSeen::Beside::kNothing);
}

TEST_CASE("two communications beside each other are seen as such") {
  OverlapWatch watch;
  const auto seen = watched({communication(100, 200, 4), communication(150, 250, 5, 3)}, watch);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].interval.subject == 4);
  CHECK(seen[0].communications[0] == 5);
  CHECK(seen[0].beside_ns == 50);
  CHECK(seen[1].communications[0] == 4);
}

TEST_CASE("unclear cases are counted and left out") {
  OverlapWatch watch;
  // Beside one collective, then beside another; beside another kernel; beside one for a tenth; beside a copy.
  const auto seen = watched(
      {communication(0, 150, 1), computation(100, 200, 2), communication(150, 300, 3), computation(1000, 1100, 4),
       computation(1050, 1150, 5, 9), communication(1990, 2010, 6), computation(2000, 2100, 7),
       DeviceInterval{3000, 3100, 4, 0, Activity::kCopy}, computation(3050, 3150, 8)},
      watch);
  for (const OverlapSeen& one : seen) CHECK(one.interval.activity == Activity::kCommunication);
  CHECK(watch.counters().mixed == 1);
  CHECK(watch.counters().crowded == 3);
  CHECK(watch.counters().slight == 1);
}

TEST_CASE("many intervals at once do not grow the watch") {
  OverlapWatch watch;
  for (std::uint64_t i = 0; i < 1000; ++i) watch.add(computation(i, 100'000, 1, static_cast<std::uint32_t>(i)));
  CHECK(watch.counters().crowded > 500);
}
