#include "schema/api/unusual_hardware.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("what is unusual about a node is named, and nothing of an ordinary one", "[unusual_hardware]") {
  Fingerprint node;
  node.device = {{"kind", "gpu"}, {"model", "NVIDIA H100 80GB HBM3"}, {"mig", "off"}};
  CHECK(unusual_hardware(node).empty());
  node.device["mig"] = "off + 3g.40gb";
  node.environment["mps"] = "on";
  REQUIRE(unusual_hardware(node).size() == 2);
  CHECK_THAT(unusual_hardware(node)[0], Catch::Contains("divided by MIG (off + 3g.40gb)"));
  CHECK_THAT(unusual_hardware(node)[1], Catch::Contains("shared by MPS"));
  const Fingerprint amd{{{"kind", "cpu"}, {"other_gpus", "8 x AMD gfx942"}}, {}, {}, {}};
  REQUIRE(unusual_hardware(amd).size() == 1);
  CHECK_THAT(unusual_hardware(amd)[0], Catch::Contains("of 8 x AMD gfx942 no kernels"));
}
