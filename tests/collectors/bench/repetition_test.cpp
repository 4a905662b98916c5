#include "repetition.hpp"

#include <catch2/catch.hpp>

#include "fake_device.hpp"

using namespace trimtab;
using namespace trimtab::bench;

namespace {

struct Counted {
  int calls = 0;
  Result<Measurement> operator()() {
    ++calls;
    return Measurement{100.0 + calls % 2};
  }
};

}  // namespace

TEST_CASE("steady measurements end early, unsteady ones at the maximum", "[gpu_bench]") {
  FakeDevice device({});
  NoOtherRanks alone;
  Counted measure;
  const auto steady_result = repeat(std::ref(measure), {0.03, 5, 60}, device, alone);
  REQUIRE(steady_result.ok());
  CHECK(steady_result->columns.front().size() == 5);
  CHECK(measure.calls == kWarmUps + 5);
  CHECK(steady_result->conditions.median_sm_mhz == 1500);
  CHECK(steady_result->conditions.median_power_milliwatts == 400'000);

  int calls = 0;
  const auto wild = repeat([&]() -> Result<Measurement> { return Measurement{++calls % 2 == 0 ? 1.0 : 3.0}; },
                           {0.03, 5, 20}, device, alone);
  REQUIRE(wild.ok());
  CHECK(wild->columns.front().size() == 20);
}

TEST_CASE("no rank stops before all are satisfied", "[gpu_bench]") {
  FakeDevice device({});
  FakeRanks ranks(0, 4, 7);
  Counted measure;
  const auto result = repeat(std::ref(measure), {0.03, 5, 60}, device, ranks);
  REQUIRE(result.ok());
  CHECK(result->columns.front().size() == 8);
}

TEST_CASE("repetitions at another clock are left out and made again", "[gpu_bench]") {
  FakeSettings settings;
  settings.sm_mhz = [](int reading) { return reading == 1 || reading == 3 ? 1200U : 1500U; };
  FakeDevice device(settings);
  NoOtherRanks alone;
  Counted measure;
  const auto result = repeat(std::ref(measure), {0.03, 5, 60}, device, alone);
  REQUIRE(result.ok());
  CHECK(result->columns.front().size() == 5);
  CHECK(result->conditions.dropped == 2);
}

TEST_CASE("a clock that wanders gives no result, and says so", "[gpu_bench]") {
  FakeSettings settings;
  settings.sm_mhz = [](int reading) { return 1000U + 100U * static_cast<std::uint32_t>(reading); };
  FakeDevice device(settings);
  NoOtherRanks alone;
  Counted measure;
  const auto result = repeat(std::ref(measure), {0.03, 5, 20}, device, alone);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message.find("clock is not steady") != std::string::npos);
  CHECK(result.error().kind == ErrorKind::kUnavailable);
}

TEST_CASE("where the driver does not say the clock nothing is left out", "[gpu_bench]") {
  const std::vector<ClockReading> unknown(3);
  CHECK(steady(unknown) == std::vector<bool>{true, true, true});
  CHECK(conditions_of(unknown).median_sm_mhz == 0);
  CHECK(conditions_of(unknown).dropped == 0);
}

TEST_CASE("a failed measurement ends the repetitions", "[gpu_bench]") {
  FakeDevice device({});
  NoOtherRanks alone;
  int calls = 0;
  const auto result = repeat(
      [&]() -> Result<Measurement> {
        if (++calls == 6) return unavailable("the GPU fell off the bus");
        return Measurement{1.0};
      },
      {0.0001, 50, 60}, device, alone);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message == "the GPU fell off the bus");
}
