#include "kernels/launch_ranges.hpp"

#include <catch2/catch.hpp>

#include "../kernel_records.hpp"
#include "kernels/kernel_attribution.hpp"

using namespace trimtab::agent;
using namespace trimtab::agent::test;

namespace {

RangeRecord on_thread(RangeRecord record, std::uint32_t thread) {
  record.thread = thread;
  return record;
}

}  // namespace

TEST_CASE("a range says what a collective was for") {
  LaunchRanges ranges;
  ranges.add(range("comm/all_reduce/2", 3, 110, 120, 2));
  ranges.add(range("a part", 4, 130, 140, 2));
  ranges.add(range("op/a/forward", 2, 100, 200, 1));
  ranges.add(range("comm/all_to_all/2", 5, 210, 220, 1));
  ranges.add(range("what it is made of", 7, 232, 238, 2));
  ranges.add(range("transfer/send", 6, 230, 240, 1, 4096));
  ranges.add(on_thread(range("comm/all_reduce/4", 8, 245, 250), 9));
  ranges.add(range("op/a/backward", 9, 250, 300, 1));
  ranges.add(range("comm/all_reduce/4", 10, 310, 320, 1));
  ranges.add(range("optimizer", 11, 320, 330, 1));
  ranges.add(range("step", 1, 90, 340));
  CHECK(ranges.purpose_of(3) == Purpose::kOwn);
  CHECK(ranges.purpose_of(4) == Purpose::kOwn);
  CHECK(ranges.purpose_of(5) == Purpose::kLayout);
  CHECK(ranges.purpose_of(6) == Purpose::kTransfer);
  CHECK(ranges.purpose_of(7) == Purpose::kTransfer);
  CHECK(ranges.purpose_of(8) == Purpose::kGradients);  // on a thread of its own
  CHECK(ranges.purpose_of(10) == Purpose::kGradients);
  CHECK(ranges.purpose_of(11) == Purpose::kGradients);
  for (const std::uint32_t other : {0U, 1U, 77U}) CHECK(ranges.purpose_of(other) == Purpose::kUnknown);
  REQUIRE(ranges.transfer_of(7));
  CHECK(ranges.transfer_of(7)->sends);
  CHECK(ranges.transfer_of(7)->bytes == 4096);
  CHECK_FALSE(ranges.transfer_of(5));
}

TEST_CASE("in a step that goes on a collective has a purpose once a pass has followed") {
  LaunchRanges ranges;
  ranges.add(range("comm/all_to_all/2", 2, 210, 220, 1));
  CHECK(ranges.purpose_of(2) == Purpose::kUnknown);
  ranges.add(range("op/a/backward", 3, 250, 300, 1));
  CHECK(ranges.purpose_of(2) == Purpose::kLayout);
}

TEST_CASE("of very many ranges the oldest have no purpose") {
  LaunchRanges ranges(16);
  for (std::uint32_t id = 1; id <= 40; ++id) ranges.add(range("op/a/forward", id, id, id + 1));
  CHECK(ranges.purpose_of(24) == Purpose::kUnknown);
  CHECK(ranges.purpose_of(25) == Purpose::kOwn);
}

TEST_CASE("what a transfer takes by itself is known when some sends agree on it") {
  WireTimes wires;
  const LaunchRanges::Transfer sent{true, 4096};
  for (std::uint64_t i = 0; i < WireTimes::kLeast; ++i) {
    CHECK_FALSE(wires.of(sent));
    wires.add(sent, i < 3 ? 100 + i : 1000 + i);
  }
  CHECK(wires.of(sent) == 101);
  CHECK(wires.of({false, 4096}) == 101);
  wires.add({false, 4096}, 95);
  CHECK(wires.of(sent) == 101);
  wires.add({false, 4096}, 50);  // so all that was sent had waited
  CHECK_FALSE(wires.of(sent));
  CHECK_FALSE(wires.of({true, 8192}));
  CHECK_FALSE(wires.of({true, 4096, 3}));
  WireTimes scattered;
  for (std::uint64_t i = 0; i < 20; ++i) scattered.add(sent, 100 + 30 * i);
  CHECK_FALSE(scattered.of(sent));
  WireTimes received;
  for (int i = 0; i < 20; ++i) received.add({false, 4096}, 100);
  CHECK_FALSE(received.of(sent));
}

TEST_CASE("of a launch is known when it was handed out, however it is told") {
  LostWindows lost;
  KernelAttribution attribution(lost);
  constexpr std::uint64_t kBegin = 1'700'000'000 * kSecond;
  const auto handed_out = [&](std::uint32_t correlation) {
    return attribution.launch_of(correlation, kBegin)->end_ns.value_or(0);
  };
  CHECK_FALSE(attribution.launch_of(1, kBegin));
  attribution.add_launch(1, 5, kBegin - 10'000, kBegin - 6400);
  CHECK(handed_out(1) <= kBegin - 6400 + 64);
  CHECK(handed_out(1) >= kBegin - 6400 - 64);
  CHECK(attribution.launch_of(1, kBegin)->range == 5);
  attribution.add_launch(2, 6);  // the range first, then the call
  CHECK(handed_out(2) == 0);
  attribution.add_launch(2, 0, kBegin - 1000, kBegin + 640);
  CHECK(attribution.launch_of(2, kBegin)->range == 6);
  CHECK(handed_out(2) > kBegin);
  CHECK_FALSE(attribution.launch_of(3, kBegin));
}

TEST_CASE("a wait that was taken for a launch leaves its pass whole") {
  LostWindows lost;
  KernelAttribution attribution(lost);
  attribution.add_range(range("op/a/forward", 5, 100, 200));
  attribution.add_launch(1, 5);
  attribution.add_launch(2, 5);
  attribution.no_launch(2);
  attribution.no_launch(3);
  attribution.add_kernel(1, 150, 160);
  std::uint64_t passes = 0;
  attribution.take([&](const PassTime& pass) { passes += pass.device_ns == 10 ? 1 : 0; }, true);
  CHECK(passes == 1);
}
