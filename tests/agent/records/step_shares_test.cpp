#include "records/step_shares.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "../kernel_records.hpp"
#include "base/random.hpp"
#include "kernels/device_interval.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

DeviceInterval busy(Activity activity, std::uint64_t begin, std::uint64_t end, std::uint32_t stream = 1) {
  return {begin, end, stream, 0, activity};
}

// The same by counting every nanosecond.
StepShares counted(const std::vector<DeviceInterval>& intervals, std::uint64_t begin, std::uint64_t end) {
  StepShares shares;
  for (std::uint64_t t = begin; t < end; ++t) {
    const auto runs = [&](Activity activity) {
      return std::ranges::any_of(intervals, [&](const DeviceInterval& interval) {
        return interval.activity == activity && interval.begin_ns <= t && t < interval.end_ns;
      });
    };
    const bool computes = runs(Activity::kComputation);
    const bool communicates = runs(Activity::kCommunication);
    const bool copies = runs(Activity::kCopy);
    shares.computation_ns += computes ? 1 : 0;
    shares.exposed_communication_ns += communicates && !computes ? 1 : 0;
    shares.overlapped_communication_ns += communicates && computes ? 1 : 0;
    shares.exposed_copy_ns += copies && !computes && !communicates ? 1 : 0;
    shares.overlapped_copy_ns += copies && (computes || communicates) ? 1 : 0;
    shares.idle_ns += !computes && !communicates && !copies ? 1 : 0;
  }
  return shares;
}

}  // namespace

TEST_CASE("a step's time is shared out: computing, communicating, copying, idle") {
  StepSweep sweep;
  sweep.begin(100);
  sweep.add(busy(Activity::kComputation, 110, 150, 1));
  sweep.add(busy(Activity::kCommunication, 140, 180, 2));
  sweep.add(busy(Activity::kCopy, 145, 190, 3));
  const StepShares shares = sweep.end(200);
  CHECK(shares.computation_ns == 40);
  CHECK(shares.exposed_communication_ns == 30);
  CHECK(shares.overlapped_communication_ns == 10);
  CHECK(shares.exposed_copy_ns == 10);
  CHECK(shares.overlapped_copy_ns == 35);
  CHECK(shares.idle_ns == 20);
  REQUIRE(shares.streams.size() == 3);
  CHECK(shares.streams[0].computation_ns == 40);
  CHECK(shares.streams[1].communication_ns == 40);
  CHECK(shares.streams[2].copy_ns == 45);
}

TEST_CASE("what reaches over a step's end counts in both, each its part") {
  StepSweep sweep;
  sweep.begin(0);
  sweep.add(busy(Activity::kComputation, 80, 130));
  const StepShares first = sweep.end(100);
  CHECK(first.computation_ns == 20);
  CHECK(first.idle_ns == 80);
  CHECK(first.streams.at(0).computation_ns == 20);
  const StepShares second = sweep.end(200);
  CHECK(second.computation_ns == 30);
  CHECK(second.idle_ns == 70);
  CHECK(second.streams.at(0).computation_ns == 30);
}

TEST_CASE("the sweep agrees with counting every moment") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<DeviceInterval> intervals;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t begin = 50 + random.below(900);
      intervals.push_back(busy(static_cast<Activity>(random.below(3)), begin, begin + random.below(120),
                               static_cast<std::uint32_t>(random.below(4))));
    }
    std::ranges::sort(intervals, {}, &DeviceInterval::begin_ns);
    StepSweep sweep;
    sweep.begin(100);
    std::size_t next = 0;
    std::uint64_t from = 100;
    for (const std::uint64_t until : {400U, 401U, 700U, 1100U}) {
      for (; next < intervals.size() && intervals[next].begin_ns < until; ++next) sweep.add(intervals[next]);
      const StepShares shares = sweep.end(until);
      const StepShares expected = counted(intervals, from, until);
      CHECK(shares.computation_ns == expected.computation_ns);
      CHECK(shares.exposed_communication_ns == expected.exposed_communication_ns);
      CHECK(shares.overlapped_communication_ns == expected.overlapped_communication_ns);
      CHECK(shares.exposed_copy_ns == expected.exposed_copy_ns);
      CHECK(shares.overlapped_copy_ns == expected.overlapped_copy_ns);
      CHECK(shares.idle_ns == expected.idle_ns);
      CHECK(shares.computation_ns + shares.exposed_communication_ns + shares.exposed_copy_ns + shares.idle_ns ==
            until - from);
      from = until;
    }
  }
}

TEST_CASE("streams without end do not grow the sweep") {
  StepSweep sweep;
  sweep.begin(0);
  for (std::uint32_t i = 0; i < 1000; ++i) sweep.add(busy(Activity::kComputation, i, 2000, i));
  const StepShares shares = sweep.end(1000);
  CHECK(shares.streams.size() == StepSweep::kMostStreams);
  CHECK(shares.computation_ns == 1000);
  CHECK(sweep.streams_left_out() == 1000 - StepSweep::kMostStreams);
}

TEST_CASE("on the host a computation is cut around the communication inside it") {
  HostIntervals host;
  const auto add = [&](std::string_view name, std::uint64_t begin, std::uint64_t end) {
    const RangeRecord range = test::range(name, 0, begin, end);
    return host.add(range, HostIntervals::activity_of(range).value(), 3);
  };
  CHECK(add("comm/all_reduce/2", 10, 20).size() == 1);
  CHECK(add("transfer/recv", 120, 130).size() == 1);
  CHECK(add("transfer/send", 150, 160).size() == 1);
  const auto pieces = add("op/a/forward", 100, 200);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].end_ns == 120);
  CHECK(pieces[1].begin_ns == 130);
  CHECK(pieces[1].end_ns == 150);
  CHECK(pieces[2].begin_ns == 160);
  CHECK(pieces[2].end_ns == 200);
  CHECK(pieces[2].activity == Activity::kComputation);
  CHECK_FALSE(HostIntervals::activity_of(test::range("step", 0, 1, 2)));
  RangeRecord foreign = test::range("op/a/forward", 0, 1, 2);
  foreign.domain = "";
  foreign.range = {};
  CHECK_FALSE(HostIntervals::activity_of(foreign));
}
