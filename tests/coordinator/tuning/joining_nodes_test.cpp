#include "tuning/elastic/joining_nodes.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// Two nodes of fingerprint "a" and a third.
LargerPlacement larger(const std::string& fingerprint) {
  LargerPlacement all;
  all.nodes = {{"n0", 0, 1}, {"n1", 1, 1}, {"n7", 2, 2}};
  all.joined = {{"n7", 2, 2}};
  for (const NodeShare& share : all.nodes) {
    all.cluster.nodes.push_back({share.node, share.node == "n7" ? fingerprint : "a", share.ranks, 1000, 0});
  }
  return all;
}

std::vector<Probe> probes(double n7_ms) {
  return {{0, "n0", "", "", 10, "computation"},
          {1, "n1", "", "", 10, "computation"},
          {2, "n7", "", "", n7_ms, "computation"},
          {2, "n7", "", "", 1, "memory"}};
}

}  // namespace

TEST_CASE("a joining node's devices are as fast as probes say beside the job's own") {
  const NodesOffered alike = describe_joining(larger("a"), "a", probes(10.5));
  CHECK(alike.joined == "n7");
  CHECK(alike.refusal.empty());
  CHECK(alike.remark.empty());
  CHECK(alike.slow_devices.empty());
  CHECK(alike.nodes.size() == 3);
  const NodesOffered slow = describe_joining(larger("a"), "a", probes(20));
  CHECK(slow.slow_devices == std::map<std::int32_t, double>{{2, 0.5}, {3, 0.5}});
  CHECK(slow.remark.find("50") != std::string::npos);
  CHECK(describe_joining(larger("a"), "a", probes(5)).slow_devices.empty());
}

TEST_CASE("a joining node is compared with nodes of the hardware that costs were measured on alone") {
  // n1 is other hardware, half as fast; so is n7 beside it.
  LargerPlacement mixed = larger("a");
  mixed.cluster.nodes[1].fingerprint = "b";
  const std::vector<Probe> told{
      {0, "n0", "", "", 10, "computation"}, {1, "n1", "", "", 20, "computation"}, {2, "n7", "", "", 20, "computation"}};
  CHECK(describe_joining(mixed, "a", told).slow_devices == std::map<std::int32_t, double>{{2, 0.5}, {3, 0.5}});
}

TEST_CASE("a joining node of another fingerprint is used where its speed is known") {
  const NodesOffered other = describe_joining(larger("b"), "a", probes(20));
  CHECK(other.refusal.empty());
  CHECK(other.remark.find("another hardware fingerprint") != std::string::npos);
  CHECK(other.slow_devices.size() == 2);
  const NodesOffered unknown = describe_joining(larger("b"), "a", {{0, "n0", "", "", 10, "computation"}});
  CHECK(unknown.refusal.find("fingerprint") != std::string::npos);
  CHECK(describe_joining(larger("a"), "a", {}).refusal.empty());
}
