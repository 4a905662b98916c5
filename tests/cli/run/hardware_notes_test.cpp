#include "run/hardware_notes.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("a command is told what of its hardware is not recorded, and nothing on ordinary hardware") {
  CHECK(hardware_notes({}, {{"CUDA_VISIBLE_DEVICES", "0,1"}}).empty());
  const auto amd = hardware_notes({{"gfx942", Bytes{192} << 30}}, {});
  REQUIRE(amd.size() == 1);
  CHECK_THAT(amd[0], Catch::StartsWith("1 x AMD gfx942 here: no kernels") && Catch::Contains("Steps"));
  const auto shared = hardware_notes({}, {{"CUDA_VISIBLE_DEVICES", "MIG-2f1d"}, {"CUDA_MPS_PIPE_DIRECTORY", "/run/m"}});
  REQUIRE(shared.size() == 2);
  CHECK_THAT(shared[0], Catch::Contains("a part of a device"));
  CHECK_THAT(shared[1], Catch::Contains("share the device"));
}
