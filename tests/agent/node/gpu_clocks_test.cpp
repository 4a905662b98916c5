#include "node/gpu_clocks.hpp"

#include <catch2/catch.hpp>

#include "node/disturbance.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

// A device's clock as NVML's sample makes it.
std::vector<DeviceSpeed> at_mhz(double mhz, int device = 0) {
  return {{device, "clock", 1e3 / mhz, 0, ""}};
}

}  // namespace

TEST_CASE("a GPU that runs a tenth below its usual clock disturbs, until it is back") {
  GpuClocks clocks;
  CHECK_FALSE(clocks.disturbed_since(0s));
  for (int i = 0; i < 20; ++i) clocks.add(at_mhz(i % 2 == 0 ? 1755 : 1700), i * 2s);
  CHECK_FALSE(clocks.disturbed_since(25s));
  for (int i = 20; i < 26; ++i) clocks.add(at_mhz(1600), i * 2s);  // less, by less than a tenth
  CHECK_FALSE(clocks.disturbed_since(39s));
  for (int i = 26; i < 34; ++i) clocks.add(at_mhz(1410), i * 2s);
  CHECK(clocks.disturbed_since(51s));
  CHECK_FALSE(clocks.disturbed_since(0s));  // of a long measurement it was a small part
  for (int i = 34; i < 42; ++i) clocks.add(at_mhz(1755), i * 2s);
  CHECK_FALSE(clocks.disturbed_since(67s));
}

TEST_CASE("a clock that is read once does not decide, nor does a GPU that is idle now") {
  GpuClocks clocks;
  for (int i = 0; i < 10; ++i) clocks.add(at_mhz(i == 8 ? 900 : 1755), i * 2s);
  CHECK_FALSE(clocks.disturbed_since(5s));
  clocks.add({}, 20s);
  CHECK_FALSE(clocks.disturbed_since(19s));
}

TEST_CASE("each GPU has its own usual clock, and one that is held down is enough") {
  GpuClocks clocks;
  for (int i = 0; i < 10; ++i) {
    clocks.add(at_mhz(1755, 0), i * 2s);
    clocks.add(at_mhz(1200, 1), i * 2s);
  }
  CHECK_FALSE(clocks.disturbed_since(0s));
  for (int i = 10; i < 14; ++i) {
    clocks.add(at_mhz(1755, 0), i * 2s);
    clocks.add(at_mhz(900, 1), i * 2s);
  }
  CHECK(clocks.disturbed_since(19s));
}

TEST_CASE("who disturbs says which clocks are disturbed") {
  using Clock = CostSource::Clock;
  const Disturbance others{true, false};
  CHECK(others.of(Clock::kHost));
  CHECK_FALSE(others.of(Clock::kDevice));
  const Disturbance gpus{false, true};
  CHECK(gpus.of(Clock::kDevice));
  CHECK(gpus.of(Clock::kHost));
  CHECK_FALSE(gpus.of(Clock::kNotSaid));  // bytes
  CHECK_FALSE(Disturbance().of(Clock::kHost));
}
