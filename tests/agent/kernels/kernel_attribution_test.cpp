#include "kernels/kernel_attribution.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "../kernel_records.hpp"
#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace trimtab::agent::test;

namespace {

struct Join {
  explicit Join(AttributionOptions options = {}) : attribution(lost, options) {}
  void add(const RangeRecord& record) {
    if (record.kind == record::kRange) attribution.add_range(record);
    if (record.kind == record::kLaunch) {
      attribution.add_launch(static_cast<std::uint32_t>(record.payload), record.domain_value);
    }
    if (record.kind == record::kKernel) {
      attribution.add_kernel(static_cast<std::uint32_t>(record.payload), record.begin_ns, record.end_ns);
    }
  }
  // A kernel long after all others: everything before it has settled.
  void pass_time() { attribution.add_kernel(0xffffff, 1000 * kSecond, 1000 * kSecond + 1); }
  std::map<std::string, std::uint64_t> times(bool all = false) {
    std::map<std::string, std::uint64_t> result;
    attribution.take([&](const PassTime& pass) { result[std::string(pass.range.name)] += pass.device_ns; }, all);
    return result;
  }
  LostWindows lost;
  KernelAttribution attribution;
};

using Times = std::map<std::string, std::uint64_t>;

}  // namespace

TEST_CASE("a pass takes what its kernels take, in whatever order launches, kernels and ranges come") {
  const std::vector<RangeRecord> records = {launch(1, 10),
                                            launch(2, 10),
                                            launch(3, 11),
                                            range("op/a/forward", 10, 100, 200),
                                            range("op/b/forward", 11, 200, 300),
                                            kernel("k", 1, 150, 250),
                                            kernel("k", 2, 260, 300),
                                            kernel("k", 3, 310, 317)};
  std::vector<std::size_t> order(records.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Random random(7);
  for (int trial = 0; trial < 300; ++trial) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    Join join;
    for (const std::size_t i : order) join.add(records[i]);
    CHECK(join.times().empty());
    join.pass_time();
    CHECK(join.times() == Times{{"op/a/forward", 140}, {"op/b/forward", 7}});
    CHECK(join.attribution.counters().attributed == 3);
  }
}

TEST_CASE("a range inside a pass counts for it, one beside it does not") {
  Join join;
  join.add(launch(1, 20));
  join.add(launch(2, 21));
  join.add(launch(3, 22));
  join.add(launch(4, 23));
  RangeRecord inner = range("aten::mm", 20, 120, 130, 3);
  inner.domain = "";
  join.add(inner);
  RangeRecord middle = range("block", 21, 110, 140, 2);
  join.add(middle);
  join.add(range("op/a/forward", 22, 100, 200, 1));
  RangeRecord other = range("loss", 23, 210, 220, 1);
  join.add(other);
  for (std::uint32_t i = 1; i <= 4; ++i) join.add(kernel("k", i, 200 + 100 * i, 210 + 100 * i));
  join.pass_time();
  CHECK(join.times() == Times{{"op/a/forward", 30}});
}

TEST_CASE("a pass inside a pass keeps its kernels") {
  Join join;
  join.add(launch(1, 30));
  join.add(launch(2, 31));
  join.add(range("op/a/recompute", 30, 110, 120, 2));
  join.add(range("op/a/backward", 31, 100, 200, 1));
  join.add(kernel("k", 1, 300, 311));
  join.add(kernel("k", 2, 320, 355));
  join.pass_time();
  CHECK(join.times() == Times{{"op/a/recompute", 11}, {"op/a/backward", 35}});
}

TEST_CASE("a graph's launch has many kernels, and they all count") {
  Join join;
  join.add(kernel("k", 5, 100, 110));
  join.add(kernel("k", 5, 110, 120));
  join.add(launch(5, 40));
  join.add(kernel("k", 5, 120, 140));
  join.add(range("op/a/forward", 40, 50, 60));
  join.pass_time();
  CHECK(join.times() == Times{{"op/a/forward", 40}});
}

TEST_CASE("a pass is never given with a part of its kernels") {
  Join join;
  join.add(launch(1, 50));
  join.add(launch(2, 50));
  join.add(range("op/a/forward", 50, 100, 200));
  join.add(kernel("k", 1, 150, 250));
  join.pass_time();
  CHECK(join.times().empty());
  CHECK(join.attribution.counters().incomplete == 1);
  SECTION("and a pass without kernels is no zero") {
    join.add(range("op/b/forward", 51, 300, 400));
    CHECK(join.times(true).empty());
    CHECK(join.attribution.counters().without_kernels == 1);
  }
}

TEST_CASE("what ran while not all was recorded is left out") {
  Join join;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    join.add(launch(i, 60 + i));
    join.add(range(i == 1   ? "op/a/forward"
                   : i == 2 ? "op/b/forward"
                            : "op/c/forward",
                   60 + i, i * 1000, i * 1000 + 10));
    join.add(kernel("k", i, i * 1000 + 5, i * 1000 + 100));
  }
  join.lost.add(2050, 2500);  // in the midst of b's kernel
  join.pass_time();
  CHECK(join.times() == Times{{"op/a/forward", 95}, {"op/c/forward", 95}});
  CHECK(join.attribution.counters().windowed == 1);
}

TEST_CASE("kernels that were launched in no range are counted and belong to nobody") {
  Join join;
  join.add(launch(1, 0));
  join.add(kernel("k", 1, 10, 20));
  CHECK(join.attribution.counters().outside == 1);
}

TEST_CASE("passes that find no room are refused and counted, those that wait are kept whole") {
  AttributionOptions options;
  options.launches = options.kernels = 64;
  options.blocks = 4;
  options.block_ranges = 16;
  options.passes = 16;
  Join join(options);
  for (std::uint32_t i = 1; i <= 1000; ++i) {
    join.add(launch(i, i));
    join.add(range("op/a/forward", i, i * 100, i * 100 + 50));
  }
  CHECK(join.attribution.counters().crowded == 1000 - 16);
  for (std::uint32_t i = 1; i <= 1000; ++i) join.add(kernel("k", i, i * 100, i * 100 + 10));
  join.pass_time();
  CHECK(join.times() == Times{{"op/a/forward", 16 * 10}});
  CHECK(join.attribution.counters().passes == 16);
  SECTION("and there is room again when they have settled") {
    join.add(launch(2000, 2000));
    join.add(range("op/b/forward", 2000, 1000 * kSecond, 1000 * kSecond + 10));
    join.add(kernel("k", 2000, 1000 * kSecond, 1000 * kSecond + 7));
    CHECK(join.times(true) == Times{{"op/b/forward", 7}});
  }
}

TEST_CASE("a pass with a range in it that found no room is not given with a part of its kernels") {
  AttributionOptions options;
  options.blocks = 1;
  options.block_ranges = 4;
  Join join(options);
  join.add(launch(1, 2));
  join.add(launch(2, 3));
  join.add(launch(3, 4));  // the second block
  join.add(range("inner", 3, 110, 120, 2));
  join.add(range("inner", 4, 130, 140, 2));
  join.add(range("op/a/forward", 2, 100, 200, 1));
  for (std::uint32_t i = 1; i <= 3; ++i) join.add(kernel("k", i, 200 + 10 * i, 205 + 10 * i));
  CHECK(join.times(true).empty());
  CHECK(join.attribution.counters().crowded == 1);
}

TEST_CASE("ranges of a block that was refused stay so, however late they come") {
  AttributionOptions options;
  options.blocks = 1;
  options.block_ranges = 4;
  Join join(options);
  join.add(range("op/a/forward", 1, 100, 200));
  join.add(launch(1, 5));  // refused, and forgotten
  join.pass_time();
  join.add(launch(2, 5));
  join.add(range("op/b/forward", 5, 300, 400));
  join.add(kernel("k", 2, 300, 310));
  CHECK(join.times(true).empty());
  CHECK(join.attribution.counters().crowded == 1);
}

TEST_CASE("ids that wrap around or begin anew find room") {
  AttributionOptions options;
  options.blocks = 2;
  options.block_ranges = 4;
  Join join(options);
  std::uint32_t correlation = 0;
  std::uint64_t now = 1000 * kSecond;
  const auto one = [&](std::uint32_t id) {
    ++correlation;
    now += 10 * kSecond;
    join.add(launch(correlation, id));
    join.add(range("op/a/forward", id, now, now + 10));
    join.add(kernel("k", correlation, now, now + 5));
  };
  for (const std::uint32_t id : {0xfffffff7U, 0xfffffffbU, 0xffffffffU, 3U, 7U, 0x40000000U, 5U, 9U}) one(id);
  CHECK(join.times(true) == Times{{"op/a/forward", 8 * 5}});
}

// 167,000 passes a second, each of which waits for a second; kernels and launches come 20 ms after their range.
TEST_CASE("at a million kernels a second a sample of the passes is whole") {
  AttributionOptions options;
  options.settle_ns = kSecond;
  Join join(options);
  constexpr std::uint32_t kKernels = 6;
  constexpr std::uint32_t kPasses = 600'000;
  constexpr std::uint32_t kBehind = 3'333;  // passes
  std::uint64_t given = 0;
  std::uint64_t wrong = 0;
  const auto publish = [&](std::uint32_t pass) {
    const std::uint64_t begin = std::uint64_t{pass} * 6 * kMicrosecond + kSecond;
    for (std::uint32_t k = 1; k <= kKernels; ++k) join.add(launch(pass * kKernels + k, pass));
    for (std::uint32_t k = 1; k <= kKernels; ++k) {
      join.add(kernel("k", pass * kKernels + k, begin + k * kMicrosecond, begin + k * kMicrosecond + 100 * k));
    }
  };
  for (std::uint32_t pass = 1; pass <= kPasses; ++pass) {
    const std::uint64_t begin = std::uint64_t{pass} * 6 * kMicrosecond + kSecond;
    join.add(range("op/a/forward", pass, begin, begin + 5 * kMicrosecond));
    if (pass > kBehind) publish(pass - kBehind);
    if (pass % 10'000 != 0) continue;
    join.attribution.take([&](const PassTime& time) {
      ++given;
      if (time.device_ns != 2100 || time.kernels != kKernels) ++wrong;
    });
  }
  const AttributionCounters& counters = join.attribution.counters();
  CHECK(wrong == 0);
  CHECK(given > 65'536);  // twice as many as may wait, but for those that wait still
  CHECK(given == counters.passes);
  CHECK(counters.incomplete == 0);
  CHECK(counters.crowded > kPasses / 2);
  CHECK(counters.passes + counters.crowded <= kPasses);
}

TEST_CASE("windows that touch become one, and of many the oldest go") {
  LostWindows lost;
  lost.add(100, 200);
  lost.add(300, 400);
  CHECK_FALSE(lost.overlap(201, 299));
  CHECK(lost.overlap(150, 160));
  CHECK(lost.overlap(0, 100));
  lost.add(200, 300);
  CHECK(lost.overlap(250, 250));
  CHECK(lost.lost_ns() == 300);
  lost.add(50, 1000);
  CHECK(lost.lost_ns() == 950);
  for (std::uint64_t i = 0; i < 2 * LostWindows::kMost; ++i) lost.add(10'000 + 10 * i, 10'005 + 10 * i);
  CHECK_FALSE(lost.overlap(60, 900));
  CHECK(lost.overlap(10'000 + 10 * (2 * LostWindows::kMost - 1), ~std::uint64_t{0}));
}
