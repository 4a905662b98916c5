#include <catch2/catch.hpp>
#include <thread>

#include "../resident_memory.hpp"
#include "probes/device_probe.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

// Each reading is so much later than the one before.
class SteppingClock final : public Clock {
 public:
  explicit SteppingClock(Nanoseconds step) : step_(step) {}
  Nanoseconds monotonic() const override { return now_ += step_; }
  Nanoseconds wall() const override { return now_; }

 private:
  Nanoseconds step_;
  mutable Nanoseconds now_{0};
};

host::Sample sample(const host::Measure& measure, double value,
                    std::vector<std::pair<const char*, std::string>> labels) {
  return {&measure, std::move(labels), value};
}

constexpr host::Measure kClock{"trimtab_device_clock_hertz", ""};
constexpr host::Measure kThrottled{"trimtab_device_throttled", ""};
constexpr host::Measure kPower{"trimtab_device_power_watts", ""};
constexpr host::Measure kLimit{"trimtab_device_power_limit_watts", ""};
constexpr host::Measure kOther{"trimtab_host_network_speed", ""};

}  // namespace

TEST_CASE("a CPU's probe tells the time of its fixed work, and of no more repetitions than the budget has time for") {
  const SystemClock clock;
  std::atomic<bool> cancelled = false;
  const ProbeWait wait{clock, clock.monotonic() + std::chrono::seconds(30), cancelled};
  const SteppingClock steps(std::chrono::milliseconds(2));
  const auto speeds = probe_cpu({}, steps, wait);
  REQUIRE(speeds.size() == 2);
  CHECK(speeds[0].work == "computation");
  CHECK(speeds[1].work == "memory");
  for (const DeviceSpeed& one : speeds) {
    CHECK(one.ms == Approx(2));
    CHECK(one.spread == Approx(0).margin(1e-9));
  }
  // Of slow CPUs one repetition is timed.
  const SteppingClock slow(std::chrono::seconds(1));
  const auto slow_speeds = probe_cpu({}, slow, wait);
  REQUIRE(slow_speeds.size() == 2);
  CHECK(slow_speeds[0].ms == Approx(1000));
}

TEST_CASE("what CPUs' probes need of memory goes back when they end, whatever is allocated meanwhile") {
  const SystemClock clock;
  std::atomic<bool> cancelled = false;
  const ProbeWait wait{clock, clock.monotonic() + std::chrono::seconds(120), cancelled};
  const auto probe_at_once = [&](std::size_t count) {
    std::vector<std::vector<DeviceSpeed>> speeds(count);  // which live longer than the arrays, as in the agent
    std::vector<std::thread> threads;
    for (auto& one : speeds) {
      threads.emplace_back([&] { one = probe_cpu({}, SteppingClock(std::chrono::seconds(1)), wait); });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& one : speeds) REQUIRE(one.size() == 2);
  };
  [[maybe_unused]] const std::int64_t before = test::resident_bytes();
  for (std::size_t i = 0; i < 4; ++i) probe_at_once(1 + i % 3);
#ifndef __SANITIZE_THREAD__  // which keeps what it knows of that memory
  CHECK(test::resident_bytes() < before + (std::int64_t{8} << 20));
#endif
}

TEST_CASE("a CPU's probe takes its budget of the thread's own time, and nothing when it is cancelled or late") {
  const SystemClock clock;
  std::atomic<bool> cancelled = false;
  const ThreadCpuClock cpu;
  const Nanoseconds before = cpu.monotonic();
  const auto speeds = probe_cpu({}, cpu, {clock, clock.monotonic() + std::chrono::seconds(30), cancelled});
  const Nanoseconds took = cpu.monotonic() - before;
  REQUIRE(speeds.size() == 2);
  CHECK(speeds[0].ms > 0);
  // Also on a slow machine: filling the arrays, the untimed runs, and one repetition more than there is time for.
  const CpuBudget budget;
  const double most = 2 * speeds[0].ms + 2 * speeds[1].ms;
  CHECK(std::chrono::duration<double, std::milli>(took - budget.time).count() <= 4 * most + 100);
  CHECK(probe_cpu({}, cpu, {clock, clock.monotonic(), cancelled}).empty());
  cancelled = true;
  CHECK(probe_cpu({}, cpu, {clock, clock.monotonic() + std::chrono::seconds(30), cancelled}).empty());
}

TEST_CASE("a GPU's speed is its clock, with why it is held down; an idle one's says nothing") {
  const host::Samples samples{sample(kClock, 1.98e9, {{"device", "0"}, {"clock", "sm"}}),
                              sample(kClock, 2.6e9, {{"device", "0"}, {"clock", "memory"}}),
                              sample(kThrottled, 1, {{"device", "0"}, {"reason", "sw_power_cap"}}),
                              sample(kThrottled, 0, {{"device", "0"}, {"reason", "gpu_idle"}}),
                              sample(kPower, 698.4, {{"device", "0"}}),
                              sample(kLimit, 700, {{"device", "0"}}),
                              sample(kClock, 3.45e8, {{"device", "1"}, {"clock", "sm"}}),
                              sample(kThrottled, 1, {{"device", "1"}, {"reason", "gpu_idle"}}),
                              sample(kOther, 1e9, {{"device", "eth0"}})};
  const auto speeds = gpu_speeds(samples);
  REQUIRE(speeds.size() == 1);
  CHECK(speeds[0].device == 0);
  CHECK(speeds[0].work == "clock");
  CHECK(speeds[0].ms == Approx(1e9 / 1.98e9));
  CHECK(speeds[0].remark == "throttled: sw_power_cap, 698 W of 700 W");
  CHECK(gpu_speeds({}).empty());
}
