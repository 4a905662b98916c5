#include "overlap.hpp"

#include <catch2/catch.hpp>

#include "fake_device.hpp"

using namespace trimtab;
using namespace trimtab::bench;

namespace {

OverlapCase gemm_beside_channels() {
  OverlapCase one;
  one.kernel_class = "gemm";
  one.primitive = "channel_memory";
  one.channels = 8;
  one.bytes = 32 << 20;
  one.computation = {{Gemm{4096, 4096, 1024}, Dtype::kFloat16}};
  one.communication = {{ChannelKernel{8, Pace::kMemory, one.bytes}, Dtype::kFloat32}};
  return one;
}

Result<OverlapResult> measure(const OverlapCase& one, FakeDevice& device) {
  NoOtherRanks alone;
  Random random(3);
  return measure_overlap(one, {}, device, alone, random);
}

std::string why(const Result<OverlapResult>& result) {
  REQUIRE_FALSE(result.ok());
  return result.error().message;
}

}  // namespace

TEST_CASE("overlap finds the slowdowns that the device has", "[gpu_bench]") {
  FakeSettings settings;
  settings.alpha = 1.31;
  settings.beta = 1.12;
  settings.noise = 0.01;
  FakeDevice device(settings);
  const auto result = measure(gemm_beside_channels(), device);
  REQUIRE(result.ok());
  CHECK(result->computation.count >= 30);
  CHECK(result->computation.low < 1.31);
  CHECK(result->computation.high > 1.31);
  CHECK(result->communication.low < 1.12);
  CHECK(result->communication.high > 1.12);
  CHECK(result->noise.low < 1.0);
  CHECK(result->noise.high > 1.0);
  CHECK(result->computation.high - result->computation.low < 0.03);
  CHECK(result->discarded_covers == 0);
  CHECK(device.most_kernels <= Device::kMaxKernelsPerRun);
}

TEST_CASE("without slowdown the ratio is one", "[gpu_bench]") {
  FakeDevice device({});
  const auto result = measure(gemm_beside_channels(), device);
  REQUIRE(result.ok());
  CHECK(result->computation.value == Approx(1.0));
  CHECK(result->communication.value == Approx(1.0));
}

TEST_CASE("repetitions whose cover ended early do not count", "[gpu_bench]") {
  FakeSettings settings;
  settings.alpha = 2;
  settings.cover_ends = [](int pair) { return pair % 6 == 0; };  // every third repetition
  FakeDevice device(settings);
  const auto result = measure(gemm_beside_channels(), device);
  REQUIRE(result.ok());
  CHECK(result->discarded_covers >= 15);
  CHECK(result->computation.value == Approx(2.0));
}

TEST_CASE("a cover that is far too short at first grows", "[gpu_bench]") {
  FakeSettings settings;
  settings.alpha = 6;  // beyond the length that a cover has at first
  FakeDevice device(settings);
  const auto result = measure(gemm_beside_channels(), device);
  REQUIRE(result.ok());
  CHECK(result->discarded_covers > 0);
  CHECK(result->computation.value == Approx(6.0));
}

TEST_CASE("overlap fails rather than guess", "[gpu_bench]") {
  SECTION("covers never last") {
    FakeSettings settings;
    settings.cover_ends = [](int) { return true; };
    FakeDevice device(settings);
    CHECK(why(measure(gemm_beside_channels(), device)).find("in 120 the cover ended early") != std::string::npos);
  }
  SECTION("the clock wanders") {
    FakeSettings settings;
    settings.sm_mhz = [](int reading) { return 1000U + 50U * static_cast<std::uint32_t>(reading % 20); };
    FakeDevice device(settings);
    CHECK(why(measure(gemm_beside_channels(), device)).find("off its median") != std::string::npos);
  }
  SECTION("one is a thousand times longer") {
    FakeDevice device({});
    OverlapCase one = gemm_beside_channels();
    one.communication = {{ChannelKernel{1, Pace::kMemory, Bytes{64} << 30}, Dtype::kFloat32}};
    CHECK(why(measure(one, device)).find("differ too much in length") != std::string::npos);
  }
  SECTION("the device fails") {
    FakeSettings settings;
    settings.fail_run = 40;
    FakeDevice device(settings);
    CHECK(why(measure(gemm_beside_channels(), device)) == "an illegal address was touched");
  }
  SECTION("there is no memory") {
    FakeSettings settings;
    settings.fail_prepare = 1;
    FakeDevice device(settings);
    CHECK(why(measure(gemm_beside_channels(), device)) == "out of memory");
  }
}

TEST_CASE("the cover has a head start", "[gpu_bench]") {
  FakeSettings settings;
  settings.alpha = 1.5;
  FakeDevice device(settings);
  REQUIRE(measure(gemm_beside_channels(), device).ok());
  CHECK(device.delays == std::vector<std::int64_t>{20'000});
}

TEST_CASE("a cover must run from before to after", "[gpu_bench]") {
  CHECK(covers({0, 10}, {0, 10}));
  CHECK(covers({0.1, 12}, {0, 10}));
  CHECK_FALSE(covers({1, 12}, {0, 10}));
  CHECK_FALSE(covers({0, 9.9}, {0, 10}));
}
