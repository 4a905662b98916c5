#include "schema/protocol_version.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

namespace {

ProtocolSpeaker coordinator(ProtocolVersions versions) {
  return {"this coordinator", "0.3.0", versions};
}
ProtocolSpeaker agent(ProtocolVersions versions, const std::string& release = "0.9.0") {
  return {"the agent of node n0", release, versions};
}

}  // namespace

TEST_CASE("two releases speak the newest version that both know") {
  CHECK(common_version(coordinator({1, 1}), agent({1, 1})).value() == 1);
  CHECK(common_version(coordinator({1, 3}), agent({2, 5})).value() == 3);
  CHECK(common_version(coordinator({2, 5}), agent({1, 3})).value() == 3);
  CHECK(common_version(coordinator({1, 3}), agent({3, 9})).value() == 3);
}

TEST_CASE("releases without a common version are told which of them is to change") {
  const auto old_coordinator = common_version(coordinator({1, 2}), agent({3, 4}));
  REQUIRE_FALSE(old_coordinator.ok());
  CHECK(old_coordinator.error().message ==
        "this coordinator (release 0.3.0) speaks protocol versions 1 to 2, but the agent of node n0 (release 0.9.0) "
        "speaks versions 3 to 4. Bring this coordinator to a release that speaks version 3, such as 0.9.0");
  const auto old_agent = common_version(coordinator({5, 5}), agent({4, 4}, ""));
  REQUIRE_FALSE(old_agent.ok());
  CHECK(old_agent.error().message ==
        "this coordinator (release 0.3.0) speaks protocol version 5, but the agent of node n0 (release unknown) speaks "
        "version 4. Bring the agent of node n0 to a release that speaks version 5, such as 0.3.0");
}

TEST_CASE("versions that a peer makes up agree with nobody") {
  CHECK_FALSE(common_version(coordinator(kSpokenVersions), agent({0, 0})).ok());
  CHECK_FALSE(common_version(coordinator(kSpokenVersions), agent({7, 0})).ok());
  CHECK_FALSE(common_version(coordinator(kSpokenVersions), agent({UINT32_MAX, UINT32_MAX})).ok());
}
