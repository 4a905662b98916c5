#include "kernels/device_interval.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

std::vector<std::uint64_t> release(IntervalOrder& order, bool all = false) {
  std::vector<std::uint64_t> begins;
  const auto sink = [&](const DeviceInterval& interval) { begins.push_back(interval.begin_ns); };
  if (all) {
    order.finish(sink);
  } else {
    order.release(sink);
  }
  return begins;
}

}  // namespace

TEST_CASE("intervals come out in the order of their beginnings, none is lost or doubled") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    IntervalOrder order(1000, 4096);
    std::vector<std::uint64_t> in;
    std::vector<std::uint64_t> out;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const std::uint64_t begin = 10 * i + 1 + random.below(900);  // late by less than what is waited for
      in.push_back(begin);
      REQUIRE(order.add({begin, begin + 5}));
      if (random.below(50) == 0) {
        for (const std::uint64_t one : release(order)) out.push_back(one);
      }
    }
    for (const std::uint64_t one : release(order, true)) out.push_back(one);
    std::ranges::sort(in);
    CHECK(out == in);
    CHECK(order.late() == 0);
  }
}

TEST_CASE("what comes after its time is dropped and counted") {
  IntervalOrder order(100);
  CHECK(order.add({1000, 1010}));
  CHECK(order.add({2000, 2010}));
  CHECK(release(order) == std::vector<std::uint64_t>{1000});
  CHECK_FALSE(order.add({999, 1001}));
  CHECK(order.add({1500, 1501}));
  CHECK(order.late() == 1);
  CHECK(release(order, true) == std::vector<std::uint64_t>{1500, 2000});
}

TEST_CASE("a full order gives its older half") {
  IntervalOrder order(std::uint64_t{1} << 40, 100);
  for (std::uint64_t i = 0; i < 100; ++i) REQUIRE(order.add({1000 - i, 2000}));
  REQUIRE(order.full());
  const auto first = release(order);
  REQUIRE(first.size() == 50);
  CHECK(first.front() == 901);
  CHECK(first.back() == 950);
  CHECK_FALSE(order.full());
}

TEST_CASE("a clock that was set back does not silence the rank for ever") {
  IntervalOrder order(100);
  CHECK(order.add({1'000'000'000, 1'000'000'010}));
  CHECK(release(order, true).size() == 1);
  std::size_t taken = 0;
  for (std::uint64_t i = 0; i < 10'000; ++i) taken += order.add({1000 + i, 1001 + i}) ? 1 : 0;
  CHECK(taken > 5000);
  CHECK(order.late() == 4096);
}
