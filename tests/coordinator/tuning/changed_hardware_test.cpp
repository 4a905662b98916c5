#include "tuning/hardware/changed_hardware.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

LinkChanges of_level(const LinkChange& change) {
  LinkChanges changes;
  changes.levels["inter_node"] = change;
  return changes;
}

Cluster nodes_of(int count) {
  Cluster cluster;
  for (int n = 0; n < count; ++n) cluster.nodes.push_back({"n" + std::to_string(n), "", 1, 1000, 0});
  cluster.links = {{"inter_node", std::nullopt, 1e9, 20}};
  return cluster;
}

Link link_between(const std::string& a, const std::string& b, double bandwidth) {
  Link link;
  link.between = {a, b};
  link.bandwidth_bytes_per_s = bandwidth;
  return link;
}

Cost transfer(std::int64_t ns) {
  Cost one;
  one.key.kind = CostKind::kPointToPoint;
  one.key.placement = "inter_node";
  one.statistics.add(ns);
  return one;
}

}  // namespace

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
  CHECK(change_links(of_level({0.5, 0}), cluster, costs) == 2);
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
  CHECK(change_links(of_level({1, 10}), cluster, costs) == 4);
  CHECK(costs[0].statistics.mean() == 61'000'000);
  CHECK(costs[1].statistics.mean() == 260'000'000);
  CHECK(costs[2].statistics.mean() == 31'000'000);
  CHECK(costs[3].statistics.mean() == 11'000'000);
  CHECK(cluster.links[0].latency_us == Approx(10'050));
  CHECK(cluster.links[0].bandwidth_bytes_per_s == 10);
  // Shorter again: never to nothing.
  change_links(of_level({1, -10}), cluster, costs);
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

TEST_CASE("a link of two nodes that has changed is said between these two, and no cost and no other link is",
          "[drift]") {
  Cluster cluster = nodes_of(4);
  cluster.links.push_back(link_between("n0", "n1", 5e8));  // probed, and as it was
  std::vector<Cost> costs{transfer(1000)};
  LinkChanges changes;
  changes.pairs[{"n2", "n3"}] = {0.25, 1.5};
  CHECK(change_links(changes, cluster, costs) == 0);
  CHECK(costs[0].statistics.mean() == 1000);
  REQUIRE(cluster.links.size() == 3);
  CHECK(cluster.links[0].bandwidth_bytes_per_s == 1e9);
  CHECK(cluster.links[1].bandwidth_bytes_per_s == 5e8);
  CHECK(cluster.links[1].share == 0);
  CHECK(cluster.links[2].between == std::pair<std::string, std::string>{"n2", "n3"});
  CHECK(cluster.links[2].share == 0.25);
  CHECK(cluster.links[2].added_latency_us == 1500);
  // As a document.
  const Cluster read = parse_cluster(to_json(cluster), "test").value();
  CHECK(to_json(read) == to_json(cluster));
  CHECK(read.links[2].share == 0.25);
}

TEST_CASE("what a document says of a link is changed where it is that link, and nodes that are gone have none",
          "[drift]") {
  Cluster cluster = nodes_of(3);
  cluster.links.push_back(link_between("n1", "n0", 5e8));
  std::vector<Cost> costs;
  LinkChanges changes;
  changes.pairs[{"n0", "n1"}] = {0.5, 1};
  changes.pairs[{"n1", "n9"}] = {0.1, 0};
  change_links(changes, cluster, costs);
  REQUIRE(cluster.links.size() == 2);
  CHECK(cluster.links[1].bandwidth_bytes_per_s == 2.5e8);
  CHECK(cluster.links[1].latency_us == 1000);
}

TEST_CASE("a pair that is slower than its slower level has what it lacks beside it", "[drift]") {
  Cluster cluster = nodes_of(3);
  std::vector<Cost> costs{transfer(1000)};
  LinkChanges changes = of_level({0.5, 2});
  changes.pairs[{"n0", "n1"}] = {0.1, 5};
  changes.unprobed[{"n0", "n2"}] = {0.25, 2};
  CHECK(change_links(changes, cluster, costs) == 1);
  CHECK(costs[0].statistics.mean() == 2000 + 2'000'000);
  REQUIRE(cluster.links.size() == 3);
  CHECK(cluster.links[1].share == Approx(0.2));
  CHECK(cluster.links[1].added_latency_us == Approx(3000));
  CHECK(cluster.links[2].share == Approx(0.5));
  CHECK(cluster.links[2].added_latency_us == Approx(0));
}
