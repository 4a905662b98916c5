#include "agents/wire_commands.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "schema/fingerprint.hpp"
#include "schema/protocol_version.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct Nodes {
  ManualClock clock;
  Membership members{clock};
  std::uint64_t peers = 0;

  // As an agent's hello and its connection say it.
  void joins(const std::string& node, const std::string& address, const std::string& coordinator_address) {
    Introduction hello;
    hello.versions = kSpokenVersions;
    hello.node = node;
    hello.instance = "of-" + node;
    hello.devices = 1;
    hello.memory_bytes = 1 << 30;
    hello.fingerprint_json = to_json(Fingerprint{});
    hello.address = address;
    hello.coordinator_address = coordinator_address;
    const auto joined = members.join(hello, ++peers);
    INFO((joined.ok() ? "" : joined.error().message));
    REQUIRE(joined.ok());
  }
};

const std::vector<NodeShare> kBoth{{"n1", 2, 2}, {"n0", 0, 2}};
constexpr PortRange kPorts;

std::string host_of(const std::optional<std::string>& address) {
  REQUIRE(address);
  REQUIRE(address->starts_with("tcp://"));
  return address->substr(6, address->rfind(':') - 6);
}

}  // namespace

TEST_CASE("ranks on one node meet in a file of its agent's, wherever that is", "[rendezvous]") {
  const Nodes nodes;
  CHECK(rendezvous("7-launch-3", {{"n0", 0, 4}}, nodes.members, kPorts) == "7-launch-3");
}

TEST_CASE("ranks on several nodes meet on the node of rank 0, where the coordinator sees it or it says",
          "[rendezvous]") {
  Nodes nodes;
  CHECK_FALSE(rendezvous("7-launch-3", kBoth, nodes.members, kPorts));
  nodes.joins("n1", "10.0.0.6", "10.0.0.1");
  CHECK_FALSE(rendezvous("7-launch-3", kBoth, nodes.members, kPorts));
  nodes.joins("n0", "10.0.0.5", "10.0.0.1");
  CHECK(host_of(rendezvous("7-launch-3", kBoth, nodes.members, kPorts)) == "10.0.0.5");
  nodes.joins("n0", "fd00::5", "fd00::1");
  CHECK(host_of(rendezvous("7-launch-3", kBoth, nodes.members, kPorts)) == "[fd00::5]");
  nodes.members.disconnected(2);  // it is not there, and is where it was
  CHECK(rendezvous("7-launch-3", kBoth, nodes.members, kPorts));
}

TEST_CASE("a node beside the coordinator is met where others reach the coordinator", "[rendezvous]") {
  Nodes nodes;
  nodes.joins("n0", "127.0.0.1", "127.0.0.1");
  nodes.joins("n1", "127.0.0.1", "127.0.0.1");
  CHECK(host_of(rendezvous("a", kBoth, nodes.members, kPorts)) == "127.0.0.1");
  nodes.joins("n1", "10.0.0.6", "10.0.0.1");
  CHECK(host_of(rendezvous("a", kBoth, nodes.members, kPorts)) == "10.0.0.1");
}

TEST_CASE("each name has a port of the range, the same each time, and the next launch another", "[rendezvous]") {
  Nodes nodes;
  nodes.joins("n0", "10.0.0.5", "10.0.0.1");
  const auto port = [&](const std::string& name, const PortRange& ports) {
    const std::string address = rendezvous(name, kBoth, nodes.members, ports).value();
    return std::stoi(address.substr(address.rfind(':') + 1));
  };
  std::set<int> ports;
  for (int launch = 1; launch <= 50; ++launch) {
    const int one = port("7-launch-" + std::to_string(launch), kPorts);
    CHECK(one >= kPorts.first);
    CHECK(one <= kPorts.last);
    CHECK(one == port("7-launch-" + std::to_string(launch), kPorts));
    ports.insert(one);
  }
  CHECK(ports.size() == 50);
  CHECK(port("anything", {4000, 4000}) == 4000);
}

TEST_CASE("an address that is none does not come into other nodes' commands", "[rendezvous]") {
  Nodes nodes;
  Introduction hello;
  hello.versions = kSpokenVersions;
  hello.node = "n0";
  hello.instance = "i";
  hello.address = "h; rm -rf /";
  CHECK_THAT(nodes.members.join(hello, 1).error().message, Catch::Contains("an agent's address needs a host's name"));
}
