#include "tuning/changed_hardware.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::coordinator;

TEST_CASE("costs over a slower level are scaled, and no others", "[drift]") {
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
  CHECK(change_links({{"inter_node", {0.5, 0}}}, cluster, costs) == 2);
  CHECK(costs[0].statistics.mean() == 2000);
  CHECK(costs[1].statistics.mean() == 1000);
  CHECK(costs[2].statistics.mean() == 2000);
  CHECK(costs[3].statistics.mean() == 1000);
  CHECK(cluster.links[0].bandwidth_bytes_per_s == 100);
  CHECK(cluster.links[1].bandwidth_bytes_per_s == 5);
}

TEST_CASE("costs over links of more latency grow by their messages, of which short ones are made", "[drift]") {
  const auto cost = [](CostKind kind, const std::string& subject, std::int32_t ranks, std::int64_t ns) {
    Cost one;
    one.key.kind = kind;
    one.key.subject = subject;
    one.key.group_size = ranks;
    one.key.placement = "inter_node";
    one.statistics.add(ns);
    return one;
  };
  const std::vector<Cost> before{cost(CostKind::kCollective, "all_reduce", 4, 1'000'000),
                                 cost(CostKind::kCollective, "all_reduce", 4, 200'000'000),
                                 cost(CostKind::kCollective, "all_gather", 4, 1'000'000),
                                 cost(CostKind::kPointToPoint, "", 2, 1'000'000)};
  Cluster cluster;
  cluster.links = {{"inter_node", std::nullopt, 10, 50}};
  std::vector<Cost> costs = before;
  CHECK(change_links({{"inter_node", {1, 10}}}, cluster, costs) == 4);
  CHECK(costs[0].statistics.mean() == 61'000'000);
  CHECK(costs[1].statistics.mean() == 260'000'000);
  CHECK(costs[2].statistics.mean() == 31'000'000);
  CHECK(costs[3].statistics.mean() == 11'000'000);
  CHECK(cluster.links[0].latency_us == Approx(10'050));
  CHECK(cluster.links[0].bandwidth_bytes_per_s == 10);
  // Shorter again: never to nothing.
  change_links({{"inter_node", {1, -10}}}, cluster, costs);
  CHECK(costs[0].statistics.mean() == 6'100'000);
  CHECK(costs[1].statistics.mean() == 200'000'000);
  CHECK(cluster.links[0].latency_us == Approx(50));
}

TEST_CASE("a cluster's slow devices have their share of speed, and nodes without any stay as they are", "[drift]") {
  Cluster slowed = parse_cluster(R"({"schema": "trimtab.cluster/1", "nodes": [
      {"name": "n0", "devices": 2, "memory_bytes": 1}, {"name": "n1", "devices": 2, "memory_bytes": 1}]})",
                                 "test")
                       .value();
  slow_devices({{1, 0.6}}, slowed);
  CHECK(slowed.nodes[0].speeds == std::vector<double>{1, 0.6});
  CHECK(slowed.nodes[1].speeds.empty());
}
