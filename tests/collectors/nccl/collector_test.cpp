// The collector's parts on their own: slots, fusion, windows.

#include "collector.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "detail.hpp"

using namespace trimtab::nccl;

namespace {

std::vector<CompletedCollective>* published = nullptr;
void publish(const CompletedCollective& completed) {
  published->push_back(completed);
}

struct Bench {
  std::unique_ptr<Communicators> communicators = std::make_unique<Communicators>();
  std::unique_ptr<CollectiveSlots> slots = std::make_unique<CollectiveSlots>();
  std::vector<CompletedCollective> seen;
  Collector collector{publish, *communicators, *slots};
  Communicator* communicator;
  std::uint64_t now = 5'000'000'000;

  Bench() {
    published = &seen;
    collector.serve(77);
    communicator = communicators->add(0xabc, 1, 8, 2, nullptr);
  }
  std::uint64_t collective(std::uint64_t sequence, std::uint8_t channels) {
    EventDescriptor event{};
    event.type = kCollectiveEvent;
    event.collective = {sequence,   "AllGather", nullptr, nullptr, 100,  0,
                        "ncclInt8", channels,    0,       "NVLS",  "LL", nullptr};
    return collector.start(communicator, event.type, event, now);
  }
  std::uint64_t channel(std::uint64_t parent, std::uint8_t number, std::uint64_t start) {
    EventDescriptor event{};
    event.type = kKernelChannelEvent;
    event.parent = reinterpret_cast<void*>(parent);
    event.kernel_channel = {number, start};
    return collector.start(nullptr, event.type, event, now);
  }
  void end(std::uint64_t handle, std::uint64_t stamp) {
    StateArguments arguments{stamp};
    collector.record(handle, kKernelChannelStop, &arguments);
    collector.stop(handle);
  }
};

std::uint64_t value(const std::atomic<std::uint64_t>& counter) {
  return counter.load();
}

}  // namespace

TEST_CASE("a handle is recognised by the process that made it, and by no other", "[nccl]") {
  const EventHandle made{5, 0xabcdef, 2047, 64};
  EventHandle read;
  REQUIRE(EventHandle::parse(made.bits(), 5, read));
  CHECK(read.generation == 0xabcdef);
  CHECK(read.index == 2047);
  CHECK(read.part == 64);
  CHECK_FALSE(EventHandle::parse(made.bits(), 6, read));
  CHECK_FALSE(EventHandle::parse(made.bits() & ~(std::uint64_t{1} << 63), 5, read));
  CHECK_FALSE(EventHandle::parse(0, 0, read));
}

TEST_CASE("a collective is complete with its last event, in whatever order they come", "[nccl]") {
  Bench bench;
  for (const bool host_first : {true, false}) {
    const std::uint64_t handle = bench.collective(9, 2);
    REQUIRE(handle != 0);
    if (host_first) bench.collector.stop(handle);
    const std::uint64_t late = bench.channel(handle, 63, 300);
    const std::uint64_t early = bench.channel(handle, 5, 200);
    bench.end(late, 900);
    bench.end(early, 400);
    if (!host_first) {
      CHECK(bench.seen.size() == 1);
      bench.collector.stop(handle);
    }
    REQUIRE(bench.seen.size() == (host_first ? 1 : 2));
    const CompletedCollective& done = bench.seen.back();
    CHECK(done.begin_ns == 200);
    CHECK(done.end_ns == 900);
    CHECK(done.facts.communicator == 0xabc);
    CHECK(done.facts.sequence == 9);
    CHECK(done.facts.function == kAllGather);
    CHECK(done.facts.algorithm == kNvls);
    CHECK(done.facts.protocol == kLl);
    CHECK(done.facts.bytes == 100);
    CHECK(done.facts.ranks == 8);
    CHECK(done.facts.rank == 2);
  }
}

TEST_CASE("a slot's earlier owner can change nothing in it", "[nccl]") {
  Bench bench;
  std::vector<std::uint64_t> old;
  // Through the whole pool, so that each slot has had an owner.
  for (std::uint32_t i = 0; i < CollectiveSlots::kSlots; ++i) {
    old.push_back(bench.collective(i, 1));
    bench.end(bench.channel(old.back(), 0, 10 * i + 100), 10 * i + 105);
    bench.collector.stop(old.back());
  }
  REQUIRE(bench.seen.size() == CollectiveSlots::kSlots);
  std::vector<std::uint64_t> current;
  for (std::uint32_t i = 0; i < CollectiveSlots::kSlots; ++i) current.push_back(bench.collective(i, 1));
  for (const std::uint64_t handle : old) {
    CHECK(bench.channel(handle, 0, 7) == 0);
    bench.collector.stop(handle);
  }
  CHECK(bench.seen.size() == CollectiveSlots::kSlots);
  CHECK(value(bench.collector.counters().late) == CollectiveSlots::kSlots);
  bench.end(bench.channel(current[5], 0, 1000), 1005);
  bench.collector.stop(current[5]);
  CHECK(bench.seen.size() == CollectiveSlots::kSlots + 1);
}

TEST_CASE("a full pool refuses, until what never ended is old enough", "[nccl]") {
  Bench bench;
  std::vector<std::uint64_t> silent;
  for (std::uint32_t i = 0; i < CollectiveSlots::kSlots; ++i) {
    silent.push_back(bench.collective(i, 1));
    bench.collector.stop(silent.back());
  }
  CHECK(bench.collective(1, 1) == 0);
  CHECK(value(bench.collector.counters().dropped) == 1);
  bench.now += CollectiveSlots::kSilentNs + 1;
  const std::uint64_t next = bench.collective(2, 1);
  CHECK(next != 0);
  CHECK(value(bench.collector.counters().unfinished) == 1);
  CHECK(std::ranges::count_if(silent, [&](std::uint64_t handle) { return bench.channel(handle, 0, 5) == 0; }) == 1);
}

TEST_CASE("a collective that is still running keeps its slot for a minute", "[nccl]") {
  Bench bench;
  for (std::uint32_t i = 0; i < CollectiveSlots::kSlots; ++i) bench.collective(i, 1);  // the host has not stopped
  bench.now += CollectiveSlots::kSilentNs + 1;
  CHECK(bench.collective(1, 1) == 0);
  bench.now += CollectiveSlots::kUnfinishedNs;
  CHECK(bench.collective(1, 1) != 0);
}

TEST_CASE("collectives with one start stamp on a channel are marked as fused, both of them", "[nccl]") {
  Bench bench;
  const std::uint64_t first = bench.collective(1, 1);
  const std::uint64_t second = bench.collective(2, 1);
  const std::uint64_t third = bench.collective(3, 1);
  const std::uint64_t of_first = bench.channel(first, 4, 500);
  const std::uint64_t of_second = bench.channel(second, 4, 500);
  const std::uint64_t of_third = bench.channel(third, 4, 600);
  for (const std::uint64_t channel : {of_first, of_second, of_third}) bench.end(channel, 700);
  for (const std::uint64_t handle : {first, second, third}) bench.collector.stop(handle);
  REQUIRE(bench.seen.size() == 3);
  CHECK(bench.seen[0].fused);
  CHECK(bench.seen[1].fused);
  CHECK_FALSE(bench.seen[2].fused);
}

TEST_CASE("stamps that cannot be are refused with their collective", "[nccl]") {
  Bench bench;
  const auto run = [&](std::uint64_t start, std::uint64_t stop) {
    const std::uint64_t handle = bench.collective(1, 1);
    bench.end(bench.channel(handle, 0, start), stop);
    bench.collector.stop(handle);
  };
  run(1000, 999);
  run(1000, 1000 + (std::uint64_t{1} << 60));
  CHECK(value(bench.collector.counters().unsound) == 2);
  const std::uint64_t handle = bench.collective(1, 1);
  bench.collector.stop(bench.channel(handle, 0, 100));  // without a stop stamp
  bench.collector.stop(handle);
  CHECK(value(bench.collector.counters().unsound) == 3);
  CHECK(bench.seen.empty());
}

TEST_CASE("of a second's readings beside the GPU's stamps the tightest are told, once", "[nccl]") {
  ClockPairs clocks;
  ClockBounds bounds;
  CHECK_FALSE(clocks.take(100, bounds));
  clocks.read_after(1'000'500, 500);
  clocks.read_after(1'000'700, 698);   // two late: the tighter of the two
  clocks.read_after(1'000'900, 0);     // nobody looked
  clocks.read_before(1'000'500, 480);  // asked for 20 before
  clocks.read_before(1'000'600, 590);
  REQUIRE(clocks.take(1000, bounds));
  CHECK(bounds.after.gpu_ns == 1'000'700);
  CHECK(bounds.after.difference == 1'000'002);
  CHECK(bounds.before.gpu_ns == 1'000'600);
  CHECK(bounds.before.difference == 1'000'010);
  clocks.read_after(2'000'000, 900'000);
  CHECK_FALSE(clocks.take(1000 + ClockPairs::kPeriodNs - 1, bounds));
  REQUIRE(clocks.take(1000 + ClockPairs::kPeriodNs, bounds));
  CHECK(bounds.after.difference == 1'100'000);
  CHECK(bounds.before.gpu_ns == 0);
  CHECK_FALSE(clocks.take(5 * ClockPairs::kPeriodNs, bounds));  // nothing was read since
  clocks.read_after(3'000'000, 1'000'000);
  CHECK(clocks.take(10, bounds));  // the host's clock was set back
}

TEST_CASE("a collective's events are read beside its stamps", "[nccl]") {
  Bench bench;
  EventDescriptor event{};
  event.type = kCollectiveEvent;
  event.collective = {1, "AllReduce", nullptr, nullptr, 100, 0, "ncclFloat32", 1, 0, "RING", "LL", nullptr};
  const std::uint64_t handle = bench.collector.start(bench.communicator, event.type, event, bench.now, 7'000);
  EventDescriptor channel{};
  channel.type = kKernelChannelEvent;
  channel.parent = reinterpret_cast<void*>(handle);
  channel.kernel_channel = {0, 107'050};
  const std::uint64_t part = bench.collector.start(nullptr, channel.type, channel, bench.now, 7'055);
  StateArguments arguments{107'100};
  bench.collector.record(part, kKernelChannelStop, &arguments, 7'101);
  bench.collector.stop(part);
  bench.collector.stop(handle);
  REQUIRE(bench.seen.size() == 1);
  ClockBounds bounds;
  REQUIRE(bench.communicator->clocks.take(9'000, bounds));
  CHECK(bounds.after.difference == 99'999);    // of the stop: 1 late; of the start: 5
  CHECK(bounds.before.difference == 100'050);  // enqueued 50 before it began
}

TEST_CASE("eight threads share the pool", "[nccl]") {
  static std::atomic<std::uint64_t> sound{0};
  auto communicators = std::make_unique<Communicators>();
  auto slots = std::make_unique<CollectiveSlots>();
  Collector collector([](const CompletedCollective& done) { sound += done.end_ns - done.begin_ns == 7 ? 1 : 0; },
                      *communicators, *slots);
  Communicator* communicator = communicators->add(1, 1, 2, 0, nullptr);
  constexpr int kEach = 20000;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        EventDescriptor event{};
        event.collective = {i, "AllReduce", nullptr, nullptr, 1, 0, "ncclInt8", 1, 0, "RING", "LL", nullptr};
        const std::uint64_t handle = collector.start(communicator, kCollectiveEvent, event, i);
        EventDescriptor channel{};
        channel.parent = reinterpret_cast<void*>(handle);
        channel.kernel_channel = {static_cast<std::uint8_t>(t), i * 10};
        const std::uint64_t part = collector.start(nullptr, kKernelChannelEvent, channel, i);
        StateArguments stop{i * 10 + 7};
        collector.record(part, kKernelChannelStop, &stop);
        collector.stop(handle);
        collector.stop(part);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sound + value(collector.counters().dropped) == 8 * kEach);
  CHECK(sound == 8 * kEach);
  CHECK(value(collector.counters().late) == 0);
}

TEST_CASE("the detail is written through NCCL's own mask while it runs", "[nccl]") {
  constexpr std::uint64_t kOpen = 8 * 3 * kWindowNs;
  DetailControl control;
  int mask = 0;
  int other = 0;
  REQUIRE(control.adopt(&mask));
  REQUIRE(control.adopt(&mask));
  REQUIRE(control.adopt(&other));
  CHECK(mask == 70);
  CHECK(other == 70);
  control.set(Detail::kOff);
  CHECK(mask == 0);
  control.set(Detail::kSampled);
  CHECK(mask == 70);  // nobody moves the windows yet
  control.keep(kOpen + kWindowNs);
  CHECK(mask == 0);
  control.keep(kOpen + 8 * kWindowNs);
  CHECK(mask == 70);
  control.keep(kOpen + 9 * kWindowNs);
  CHECK(mask == 0);
  control.want_also(256);
  CHECK(mask == 256);
  control.set(Detail::kFull);
  CHECK(mask == 326);
  control.follow_budget(false);
  CHECK(mask == 256);
  control.follow_budget(true);
  CHECK(mask == 326);
  control.allow(false);
  control.set(Detail::kFull);
  CHECK(mask == 256);
  control.forget();
  control.want_also(0);
  CHECK(mask == 256);  // NCCL may be gone
}

TEST_CASE("a sampled window says when it changes", "[nccl]") {
  CHECK(window_change_in_ns(8 * kWindowNs) == kWindowNs);
  CHECK(window_change_in_ns(8 * kWindowNs + 1) == kWindowNs - 1);
  CHECK(window_change_in_ns(9 * kWindowNs) == 7 * kWindowNs);
  CHECK(window_change_in_ns(16 * kWindowNs - 1) == 1);
}

TEST_CASE("the detail's names", "[nccl]") {
  CHECK(parse_detail(nullptr) == Detail::kFull);
  CHECK(parse_detail("off") == Detail::kOff);
  CHECK(parse_detail("sampled") == Detail::kSampled);
  CHECK(parse_detail("full") == Detail::kFull);
}
