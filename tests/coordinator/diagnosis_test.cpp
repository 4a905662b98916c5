#include "tuning/diagnosis.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// Nodes n0, n1, … of two devices each, every probe 10 ms but for 2 % of noise.
std::vector<Probe> probed(std::uint64_t seed, int nodes = 6) {
  Random random(seed);
  const auto ms = [&random] { return 10 * std::exp(0.02 * random.normal()); };
  std::vector<Probe> all;
  for (int i = 0; i < nodes; ++i) {
    const std::string node = "n" + std::to_string(i);
    for (int k = 0; k < 2; ++k) all.push_back({2 * i + k, node, "", "", ms()});
    all.push_back({-1, node, "", "intra_node", ms()});
    if (i + 1 < nodes) all.push_back({-1, node, "n" + std::to_string(i + 1), "inter_node", ms()});
  }
  return all;
}

Probe& link(std::vector<Probe>& probes, const std::string& node, const std::string& peer) {
  for (Probe& one : probes) {
    if (one.device < 0 && one.node == node && one.peer == peer) return one;
  }
  FAIL("no such link");
  return probes.front();
}

}  // namespace

TEST_CASE("a link that got slower is named with its share, and nothing else, seeds 1 to 100", "[diagnosis]") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const std::vector<Probe> before = probed(seed);
    std::vector<Probe> now = probed(1000 + seed);
    link(now, "n3", "n4").ms /= 0.38;
    const std::vector<Finding> findings = diagnose(before, now);
    INFO("seed " << seed << ": " << to_text(findings));
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].is_link());
    CHECK(findings[0].share == Approx(0.38).epsilon(0.15));
    CHECK(to_text(findings).find("the link of node n3 to n4 is at ") == 0);
    const auto shares = link_shares(before, now);
    REQUIRE(shares.size() == 1);
    CHECK(shares.at("inter_node") == Approx(0.38).epsilon(0.15));
  }
}

TEST_CASE("probes of a cluster that is as it was name nothing, seeds 1 to 500", "[diagnosis]") {
  int named = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const std::vector<Probe> before = probed(seed);
    const std::vector<Probe> now = probed(1000 + seed);
    named += diagnose(before, now).empty() && link_shares(before, now).empty() ? 0 : 1;
  }
  CHECK(named == 0);
}

TEST_CASE("a throttled device, and all devices at once", "[diagnosis]") {
  const std::vector<Probe> before = probed(1);
  std::vector<Probe> now = probed(2);
  REQUIRE(now[4].device == 2);
  now[4].ms /= 0.6;
  CHECK(to_text(diagnose(before, now)).find("device 2 of node n1 is at ") == 0);
  CHECK(link_shares(before, now).empty());
  for (Probe& one : now) {
    if (one.device >= 0 && one.device != 2) one.ms /= 0.6;
  }
  const std::vector<Finding> findings = diagnose(before, now);
  CHECK(findings.size() == 12);
  CHECK(to_text(findings).find("; and 9 more") != std::string::npos);
}

TEST_CASE("costs over a slower level are scaled, and no others", "[diagnosis]") {
  const auto cost = [](CostKind kind, const std::string& placement) {
    Cost one;
    one.key.kind = kind;
    one.key.placement = placement;
    one.statistics.add(1000);
    return one;
  };
  Cluster cluster;
  cluster.links = {{"intra_node", std::nullopt, 100, 1}, {"inter_node", std::nullopt, 10, 1}};
  std::vector<Cost> costs{cost(CostKind::kCollective, "inter_node"), cost(CostKind::kCollective, "intra_node"),
                          cost(CostKind::kPointToPoint, "inter_node"), cost(CostKind::kOperatorForward, "")};
  slow_links({{"inter_node", 0.5}}, cluster, costs);
  CHECK(costs[0].statistics.mean() == 2000);
  CHECK(costs[1].statistics.mean() == 1000);
  CHECK(costs[2].statistics.mean() == 2000);
  CHECK(costs[3].statistics.mean() == 1000);
  CHECK(cluster.links[0].bandwidth_bytes_per_s == 100);
  CHECK(cluster.links[1].bandwidth_bytes_per_s == 5);
}
