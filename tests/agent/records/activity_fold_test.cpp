#include "records/activity_fold.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "../../resident_memory.hpp"
#include "../interval_95.hpp"
#include "../kernel_records.hpp"
#include "base/random.hpp"
#include "records/range_fold.hpp"
#include "skipping.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace trimtab::agent::test;

namespace {

constexpr std::uint64_t kStart = 1'700'000'000 * kSecond;
constexpr std::string_view kGemm = "sm90_xmma_gemm_bf16";
constexpr std::string_view kNorm = "layer_norm_kernel";
constexpr std::string_view kNccl = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL128(x)";

// A job of 10 ms steps on one device: 60 computations of 100 us with gaps, in each step a collective of 2 ms beside the
// later ones. Whatever the collective touches runs 1.3 times as long.
struct DeviceJob {
  void step(std::vector<RangeRecord>& out, bool with_ranges) {
    const std::uint64_t begin = now;
    const std::uint64_t nccl_begin = begin + 6 * kMillisecond;
    const std::uint64_t nccl_end = nccl_begin + 2 * kMillisecond;
    const std::uint32_t outer = ++next_range;
    std::uint64_t at = begin;
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t base = static_cast<std::uint64_t>(100'000 * (1 + 0.02 * random.normal()));
      const std::uint64_t end = slowed(at, base, nccl_begin, nccl_end);
      out.push_back(kernel(i % 4 == 3 ? kNorm : kGemm, ++correlation, at, end));
      out.back().domain_value = static_cast<std::uint32_t>(64 + i % 2);
      out.push_back(launch(correlation, outer));
      at = end + 20 * kMicrosecond;
    }
    out.push_back(kernel(kNccl, ++correlation, nccl_begin, nccl_end, 20));
    out.back().domain_value = 24;
    // Sizes differ a little, as variable sequences make them.
    out.push_back(collective("AllReduce", (4 << 20) + 1024 * (steps % 64), nccl_begin + 2000, nccl_end - 1000));
    out.back().detail[2] = nodes;
    now = begin + 10 * kMillisecond;
    if (!with_ranges) return;
    RangeRecord pass = range("op/a/forward", outer, begin, begin + 3 * kMillisecond, 1, 4);
    out.push_back(pass);
    out.push_back(range("step", 0, begin, now, 0, steps));
    ++steps;
  }
  // base of work that began at `at`, with 1.3 of its time while the collective runs.
  static std::uint64_t slowed(std::uint64_t at, std::uint64_t base, std::uint64_t from, std::uint64_t until) {
    double left = static_cast<double>(base);
    auto t = static_cast<double>(at - kStart);
    const auto f = static_cast<double>(from - kStart);
    const auto u = static_cast<double>(until - kStart);
    if (t < f) {
      const double before = std::min(left, f - t);
      t += before;
      left -= before;
    }
    if (left > 0 && t < u) {
      const double beside = std::min(left, (u - t) / 1.3);
      t += beside * 1.3;
      left -= beside;
    }
    return kStart + static_cast<std::uint64_t>(t + left);
  }
  Random random{11};
  std::uint64_t now = kStart;
  std::uint32_t correlation = 0;
  std::uint32_t next_range = 0;
  std::int64_t steps = 0;
  std::uint16_t nodes = 1;
};

// Hands records over as they come: CUPTI's and NCCL's in batches of about half a second, each shuffled, ranges in
// order.
void deliver(ActivityFold& fold, std::vector<RangeRecord> records, std::uint64_t seed = 1) {
  Random random(seed);
  constexpr std::size_t kBatch = 6000;
  for (std::size_t from = 0; from < records.size(); from += kBatch) {
    const std::size_t until = std::min(records.size(), from + kBatch);
    const auto ranges = std::stable_partition(records.begin() + static_cast<std::ptrdiff_t>(from),
                                              records.begin() + static_cast<std::ptrdiff_t>(until),
                                              [](const RangeRecord& record) { return record.kind != record::kRange; });
    const auto others = static_cast<std::size_t>(ranges - records.begin());
    for (std::size_t i = others; i > from + 1; --i) std::swap(records[i - 1], records[from + random.below(i - from)]);
    for (std::size_t i = from; i < until; ++i) fold.add(records[i]);
    fold.settle();
  }
}

std::map<std::string, Statistics> by_text(const std::vector<Cost>& costs) {
  std::map<std::string, Statistics> result;
  for (const Cost& cost : costs) result[describe(cost.key)] = cost.statistics;
  return result;
}

}  // namespace

TEST_CASE("a job on a device: shares, passes, signatures and slowdowns from its records") {
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 800; ++i) job.step(records, true);
  ActivityFold fold;
  deliver(fold, records);
  fold.finish();
  const RankActivity now = fold.activity();
  CHECK(now.on_device);
  CHECK(now.steps == 800);
  CHECK(now.step == 799);
  CHECK_FALSE(now.detected);
  CHECK(now.steps_measured == 32);
  CHECK(now.step_seconds == Approx(0.010).epsilon(0.001));
  CHECK(now.computation + now.exposed_communication + now.exposed_copy + now.idle == Approx(1));
  // 60 kernels of 100 us, some of them slowed down for as long as the 2 ms collective runs.
  CHECK(now.computation == Approx(0.6 + 0.03).margin(0.015));
  CHECK(now.exposed_communication + now.overlapped_communication == Approx(0.2).margin(0.002));
  REQUIRE(now.busiest.size() >= 3);
  CHECK(now.busiest[0].name.starts_with("sm90_xmma_gemm"));

  std::uint64_t passes = 0;
  fold.take_passes([&](const PassTime& pass) {
    ++passes;
    CHECK(pass.kernels == 60);
    CHECK(static_cast<double>(pass.device_ns) == Approx(6.3e6).epsilon(0.03));
  });
  CHECK(passes == 800);
  CHECK(fold.attribution().incomplete == 0);

  auto all = fold.take_kernels();
  for (const Cost& cost : fold.take_slowdowns()) all.push_back(cost);
  const auto costs = by_text(all);
  CHECK(costs.at("kernel layer_norm_kernel<<<65,1,1 256,1,1>>> beside normalization").count() == 800 * 15);
  bool gemm = false;
  bool norm = false;
  for (const auto& [text, statistics] : costs) {
    if (!text.starts_with("overlap_computation")) continue;
    INFO(text);
    CHECK(text.find("all_reduce bytes=4194304 group_size=8 intra_node ring ll128 channels=24") != std::string::npos);
    const Interval95 interval = interval_95(statistics);
    CHECK(interval.low < 1.31e6);
    CHECK(interval.high > 1.29e6);
    CHECK(statistics.mean() == Approx(1.3e6).epsilon(0.02));
    gemm = gemm || text.ends_with("beside gemm");
    norm = norm || text.ends_with("beside normalization");
  }
  CHECK(gemm);
  CHECK(norm);
}

TEST_CASE("without a range the step is found from the kernels, and costs stay by signature") {
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 900; ++i) job.step(records, false);
  ActivityFold fold;
  deliver(fold, records);
  const RankActivity now = fold.activity();
  CHECK(now.detected);
  // Sixty kernels, but the pattern of the four kinds repeats after four: nothing tells a step from four kernels here.
  CHECK(now.kernels_per_step % 4 == 0);
  CHECK(now.confidence > 0.8);
  CHECK(now.steps > 100);
  std::vector<std::uint64_t> ends;
  fold.take_found_steps([&](std::uint64_t end_ns) { ends.push_back(end_ns); });
  REQUIRE(ends.size() > 100);
  for (std::size_t i = 1; i < ends.size(); ++i) REQUIRE(ends[i] > ends[i - 1]);
  CHECK(ends.back() < job.now);
  fold.take_found_steps([&](std::uint64_t) { FAIL("told twice"); });
}

TEST_CASE("windows in which not all was recorded are left out of the steps, and counted") {
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 100; ++i) job.step(records, true);
  // Half of the kernels of ten steps are missing, and the collector says so.
  const std::uint64_t from = kStart + 50 * 10 * kMillisecond;
  const std::uint64_t until = from + 100 * kMillisecond;
  std::erase_if(records, [&](const RangeRecord& record) {
    return record.kind == record::kKernel && record.begin_ns >= from && record.begin_ns < until &&
           (record.payload & 1) != 0;
  });
  records.push_back(window(from, until));
  ActivityFold fold;
  deliver(fold, records);
  fold.finish();
  const RankActivity now = fold.activity();
  CHECK(now.windows == 1);
  CHECK(now.steps == 100);
  CHECK(now.steps_left_out >= 10);
  CHECK(now.steps_left_out <= 14);
  CHECK(now.computation == Approx(0.63).margin(0.02));
  std::uint64_t passes = 0;
  fold.take_passes([&](const PassTime& pass) {
    CHECK(pass.kernels == 60);
    ++passes;
  });
  CHECK(passes >= 87);
  CHECK(passes <= 90);
}

TEST_CASE("a job on the host has its shares from its own ranges") {
  ActivityFold fold;
  std::uint64_t at = kStart;
  for (std::int64_t i = 0; i < 50; ++i) {
    const std::uint64_t begin = at;
    fold.add(range("op/a/forward", 0, begin, begin + 40 * kMillisecond, 1));
    fold.add(range("comm/all_reduce/2", 0, begin + 50 * kMillisecond, begin + 60 * kMillisecond, 2, 1024));
    fold.add(range("op/a/backward", 0, begin + 40 * kMillisecond, begin + 80 * kMillisecond, 1));
    at += 100 * kMillisecond;
    fold.add(range("step", 0, begin, at, 0, i));
    fold.settle();
  }
  const RankActivity now = fold.activity();
  CHECK_FALSE(now.on_device);
  CHECK(now.steps == 50);
  CHECK(now.computation == Approx(0.7));
  CHECK(now.exposed_communication == Approx(0.1));
  CHECK(now.idle == Approx(0.2));
  CHECK(now.steps_per_second == Approx(10));
  CHECK(fold.take_kernels().empty());
  REQUIRE(now.busiest.size() == 3);
  CHECK(now.busiest[2].collective);
}

TEST_CASE("a host's step in which ranges were left out has no shares, and says nothing of a device") {
  ActivityFold fold;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const std::uint64_t begin = kStart + i * 100 * kMillisecond;
    const bool gap = i % 5 == 4;  // the pass is not recorded there
    if (!gap) fold.add(range("op/a/forward", 0, begin, begin + 40 * kMillisecond, 1));
    RangeRecord left_out = window(begin + 10 * kMillisecond, begin + 50 * kMillisecond);
    left_out.kind = record::kRangesLeftOut;
    if (gap) fold.add(left_out);
    fold.add(range("step", 0, begin, begin + 100 * kMillisecond, 0, static_cast<std::int64_t>(i)));
    fold.settle();
  }
  fold.finish();
  const RankActivity now = fold.activity();
  CHECK_FALSE(now.on_device);
  CHECK(now.computation == Approx(0.4));
  CHECK(now.steps_left_out == 10);
}

TEST_CASE("what is between two steps is no step's time") {
  ActivityFold fold;
  std::uint64_t at = kStart;
  for (std::int64_t i = 0; i < 30; ++i) {
    if (i == 15) at += 5 * kSecond;  // a checkpoint between two steps
    fold.add(range("op/a/forward", 0, at, at + 80 * kMillisecond, 1));
    fold.add(range("step", 0, at, at + 100 * kMillisecond, 0, i));
    at += 100 * kMillisecond;
  }
  fold.finish();
  const RankActivity now = fold.activity();
  CHECK(now.steps_left_out == 0);
  CHECK(now.step_seconds == Approx(0.1));
  CHECK(now.computation == Approx(0.8));
}

TEST_CASE("a step longer than records are waited for has shares, too, unless it was interrupted") {
  ActivityFold fold;
  std::uint64_t at = kStart;
  for (std::int64_t i = 0; i < 12; ++i) {
    if (i == 6) at += 5 * kSecond;
    const std::uint64_t begin = at;
    for (int part = 0; part < 100; ++part) {
      fold.add(range("op/a/forward", 0, at, at + 120 * kMillisecond, 1));
      at += 200 * kMillisecond;
      fold.settle();
    }
    fold.add(range("step", 0, begin, at, 0, i));
  }
  fold.finish();
  const RankActivity now = fold.activity();
  CHECK(now.steps == 12);
  CHECK(now.steps_left_out == 1);
  CHECK(now.steps_measured >= 9);
  CHECK(now.step_seconds == Approx(20));
  CHECK(now.computation == Approx(0.6));
}

TEST_CASE("passes of the plan before are not given out after a change of plan") {
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 10; ++i) job.step(records, true);
  records.push_back(range("switch", 0, job.now, job.now + 1, 0, 1));
  const std::uint32_t last_before = job.next_range;
  for (int i = 0; i < 100; ++i) job.step(records, true);
  ActivityFold fold;
  for (const RangeRecord& record : records) fold.add(record);
  fold.finish();
  std::uint64_t passes = 0;
  fold.take_passes([&](const PassTime& pass) {
    ++passes;
    CHECK(KernelAttribution::id_of(pass.range) > last_before);
  });
  CHECK(passes == 100);
  CHECK(fold.attribution().evicted == 10);
}

TEST_CASE("where only collectives are recorded the shares are not known") {
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 100; ++i) job.step(records, true);
  ActivityFold seeing;
  deliver(seeing, records);
  seeing.finish();
  CHECK(seeing.activity().steps_measured > 0);
  std::erase_if(records, [](const RangeRecord& record) { return record.kind == record::kKernel; });
  ActivityFold fold;
  deliver(fold, records);
  fold.finish();
  const RankActivity now = fold.activity();
  CHECK(now.on_device);
  CHECK(now.steps == 100);
  CHECK(now.steps_measured == 0);
  CHECK(now.idle == 0);
}

TEST_CASE("what ran beside a communication is told where all kernels of that time are known") {
  using Beside = CostSource::Beside;
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 200; ++i) job.step(records, true);
  ActivityFold fold;
  CHECK(fold.beside_communication(kStart, kStart + kMillisecond) == Beside::kNotSaid);  // no kernel is recorded at all
  deliver(fold, records);
  const std::uint64_t step = kStart + 150 * 10 * kMillisecond;
  CHECK(fold.beside_communication(step + 6 * kMillisecond, step + 8 * kMillisecond) == Beside::kComputation);
  // The 60 computations and their gaps take less than 9 ms of the 10.
  CHECK(fold.beside_communication(step + 9 * kMillisecond, step + 10 * kMillisecond) == Beside::kNothing);
  CHECK_FALSE(fold.beside_communication(job.now - kMillisecond, job.now + kMillisecond).has_value());
  fold.add(window(step, step + kMillisecond));
  CHECK(fold.beside_communication(step, step + kMillisecond) == Beside::kNotSaid);
}

TEST_CASE("a window of lost kernels says that there is a device") {
  ActivityFold fold;
  fold.add(window(kStart, kStart + kSecond));
  CHECK(fold.on_device());
}

TEST_CASE("what was folded of the host does not lead the search for a device's steps") {
  ActivityOptions options;
  options.period.min_ns = kSecond / 5;
  ActivityFold fold(options);
  for (std::uint64_t i = 0; i < 150; ++i) {
    const std::uint64_t at = kStart - 20 * kSecond + i * kSecond / 10;
    fold.add(range("op/a/forward", 0, at, at + kMillisecond, 1));
    fold.settle();
  }
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 60; ++i) job.step(records, false);
  deliver(fold, records);
  fold.finish();
  CHECK(fold.activity().detected);
}

TEST_CASE("records from the future do not stop the shares when the true ones come") {
  ActivityFold fold;
  constexpr std::uint64_t kFuture = kStart + 3600 * kSecond;
  fold.add(kernel(kGemm, 1, kFuture, kFuture + 1));
  fold.add(kernel(kGemm, 2, kFuture + 7 * kSecond, kFuture + 7 * kSecond + 1));
  fold.settle();
  DeviceJob job;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 800; ++i) job.step(records, true);
  deliver(fold, records);
  fold.finish();
  CHECK(fold.activity().steps_measured == 32);
  std::uint64_t passes = 0;
  fold.take_passes([&](const PassTime&) { ++passes; });
  CHECK(passes > 600);
}

TEST_CASE("a slowdown beside a collective between nodes is a cost between nodes") {
  DeviceJob job;
  job.nodes = 2;
  std::vector<RangeRecord> records;
  for (int i = 0; i < 800; ++i) job.step(records, true);
  ActivityFold fold;
  deliver(fold, records);
  fold.finish();
  const auto costs = by_text(fold.take_slowdowns());
  REQUIRE_FALSE(costs.empty());
  for (const auto& [text, statistics] : costs) {
    INFO(text);
    CHECK(text.find("group_size=8 inter_node ring") != std::string::npos);
  }
}

TEST_CASE("the time in which a kernel may come counts from the first work, not from the first range") {
  RangeFold fold({0, 4096, 5 * kSecond});
  FoldContext context;
  context.dtype = "bfloat16";
  context.operators["a"] = {"a-key", 1, "default"};
  fold.set_context(0, context);
  fold.add(range("load", 1, kStart, kStart + kSecond));
  fold.add(range("op/a/forward", 2, kStart + 8 * kSecond, kStart + 8 * kSecond + 10, 1, 4));
  const auto costs = by_text(fold.take());
  CHECK(costs.size() == 1);
  CHECK(costs.contains("range load"));
}

TEST_CASE("where kernels run the ranges' own time is no operator's cost") {
  RangeFold fold({0, 4096, 5 * kSecond});
  FoldContext context;
  context.dtype = "bfloat16";
  context.operators["a"] = {"a-key", 1, "default"};
  fold.set_context(0, context);
  const RangeRecord pass = range("op/a/forward", 1, kStart, kStart + 30 * kMicrosecond, 1, 4);
  fold.add(pass);
  CHECK(fold.take().empty());  // held back
  SECTION("the first kernel says so: the host's time goes, the device's comes") {
    fold.on_device();
    fold.add(pass);
    fold.add_device_time(pass, 900'000);
    fold.add_device_time(range("op/unknown/forward", 1, kStart, kStart + 10, 1, 4), 7);
    const auto costs = by_text(fold.take());
    CHECK(costs.size() == 3);
    CHECK(costs.at("operator_forward a-key bfloat16 samples=4 tp=1 default").mean() == Approx(900'000));
    CHECK(costs.at("range op/a/forward").mean() == Approx(30'000));
    CHECK(costs.at("range op/unknown/forward/device").mean() == Approx(7));
  }
  SECTION("no kernel comes: after a while it is the cost") {
    fold.add(range("op/a/forward", 1, kStart + 6 * kSecond, kStart + 6 * kSecond + 50'000, 1, 4));
    CHECK(by_text(fold.take(true)).at("operator_forward a-key bfloat16 samples=4 tp=1 default").count() == 2);
  }
  SECTION("the rank ends before") {
    CHECK(fold.take(true).size() == 1);
  }
}

namespace {

// Folds so many kernels as a job hands them over, and returns the growth from a fifth of the way on.
std::int64_t growth_over(std::uint64_t kernels) {
  DeviceJob job;
  ActivityFold fold;
  std::int64_t at_first = 0;
  std::vector<RangeRecord> records;
  while (fold.counters().kernels < kernels) {
    records.clear();
    for (int i = 0; i < 50; ++i) job.step(records, true);
    for (const RangeRecord& record : records) fold.add(record);
    fold.settle();
    fold.take_passes([](const PassTime&) {});
    if (at_first == 0 && fold.counters().kernels >= kernels / 5) at_first = trimtab::test::resident_bytes();
  }
  return trimtab::test::resident_bytes() - at_first;
}

}  // namespace

// Sanitizers keep what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsMeasured = false;
#else
constexpr bool kMemoryIsMeasured = true;
#endif

TEST_CASE("collectives in the worst order and all at once are folded in a time that grows as their number") {
  const auto seconds_for = [](std::uint64_t count) {
    const std::clock_t begun = std::clock();
    ActivityFold fold;
    for (std::uint64_t i = 0; i < count; ++i) {
      // Each before the one before it, and under way all the time: a kernel might be any of them.
      fold.add(collective("AllReduce", 1 << 20, kStart - i, kStart + 10 * kSecond));
      fold.add(kernel(kNccl, static_cast<std::uint32_t>(i), kStart + i, kStart + i + 1, 20));
    }
    fold.finish();
    CHECK(fold.counters().collectives == count);
    return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  };
  const double few = seconds_for(4'000);
  CHECK(seconds_for(32'000) < 12 * few + 0.5);
}

TEST_CASE("memory does not depend on how many kernels are folded") {
  if (!kMemoryIsMeasured) {
    return trimtab::test::skip("a sanitizer keeps freed memory");
  }
  CHECK(growth_over(2'000'000) < std::int64_t{2} << 20);
}

TEST_CASE("memory does not depend on how many kernels are folded: 100 million", "[.][long]") {
  CHECK(growth_over(100'000'000) < std::int64_t{2} << 20);
}
