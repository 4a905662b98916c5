#include <string>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/cluster.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

std::string error_of(const std::string& members) {
  const Result<Cluster> cluster = parse_cluster(R"({"schema":"trimtab.cluster/1",)" + members + "}", "c.json");
  return cluster.ok() ? "" : cluster.error().message;
}

}  // namespace

TEST_CASE("every field of a cluster is read") {
  const Cluster cluster = parse_cluster(sample(DocumentKind::kCluster), "").value();
  REQUIRE(cluster.nodes.size() == 2);
  CHECK(cluster.nodes[0].fingerprint == "00ff");
  CHECK(cluster.nodes[0].host_memory_bytes == 1024);
  REQUIRE(cluster.links.size() == 3);
  CHECK(cluster.links[1].level == "inter_node");
  CHECK(cluster.links[1].bandwidth_bytes_per_s == 1.25e9);
  CHECK(cluster.links[2].between == std::pair<std::string, std::string>("n0", "n1"));
  CHECK(cluster.links[2].level.empty());
}

TEST_CASE("devices are numbered node after node") {
  const Cluster cluster = parse_cluster(sample(DocumentKind::kCluster), "").value();
  CHECK(cluster.devices() == 9);
  CHECK(cluster.node_of(0) == 0);
  CHECK(cluster.node_of(7) == 0);
  CHECK(cluster.node_of(8) == 1);
  CHECK(cluster.nodes[1].memory_bytes == 14680064000);
}

TEST_CASE("a cluster comes back from its JSON as it was") {
  const std::string text = to_json(parse_cluster(sample(DocumentKind::kCluster), "").value());
  CHECK(to_json(parse_cluster(text, "").value()) == text);
}

TEST_CASE("an unsuitable field of a cluster is named by its path") {
  const std::string node = R"({"name":"a","memory_bytes":1})";
  CHECK_THAT(error_of(R"("nodes":[])"), Catch::StartsWith("c.json: nodes: expected an array of at least one"));
  CHECK_THAT(error_of(R"("nodes":[{"name":"a"}])"), Catch::StartsWith("c.json: nodes[0].memory_bytes: expected"));
  CHECK_THAT(error_of(R"("nodes":[{"name":"a","memory_bytes":1,"devices":0}])"),
             Catch::StartsWith("c.json: nodes[0].devices: expected a number of devices"));
  CHECK_THAT(error_of(R"("nodes":[)" + node + "," + node + "]"),
             Catch::StartsWith("c.json: nodes[1].name: another node is already called \"a\""));
  CHECK_THAT(error_of(R"("nodes":[)" + node + R"(],"links":[{"level":"rack"}])"),
             Catch::StartsWith("c.json: links[0].level: expected \"intra_node\" or \"inter_node\", found \"rack\""));
  CHECK_THAT(error_of(R"("nodes":[)" + node + R"(],"links":[{"latency_us":1}])"),
             Catch::StartsWith("c.json: links[0].level: expected"));
  CHECK_THAT(error_of(R"("nodes":[)" + node + R"(],"links":[{"between":["a","b"]}])"),
             Catch::StartsWith("c.json: links[0].between[1]: expected the name of a node"));
  CHECK_THAT(error_of(R"("nodes":[)" + node + R"(],"links":[{"level":"intra_node","latency_us":-1}])"),
             Catch::StartsWith("c.json: links[0].latency_us: expected a number of at least 0, found -1"));
}

TEST_CASE("devices have a share of the speed that costs were measured at, 1 where nothing is said") {
  const auto of = [](const std::string& speeds) {
    return parse_cluster(
        R"({"schema":"trimtab.cluster/1","nodes":[{"name":"n0","devices":3,"memory_bytes":1,"speeds":)" + speeds +
            "}]}",
        "c.json");
  };
  const Cluster cluster = of("[1, 0.5]").value();
  CHECK(cluster.nodes[0].speed_of(1) == 0.5);
  CHECK(cluster.nodes[0].speed_of(2) == 1);
  CHECK(parse_cluster(to_json(cluster), "").value().nodes[0].speeds == cluster.nodes[0].speeds);
  CHECK_FALSE(of("[0]").ok());
  CHECK_FALSE(of("[1, 1, 1, 1]").ok());
  CHECK_FALSE(of("0.5").ok());
}

TEST_CASE("a cluster of more devices than any has is refused") {
  std::string nodes;
  for (int i = 0; i < 16; ++i) {
    nodes += (i > 0 ? "," : "") + (R"({"name":"n)" + std::to_string(i) + R"(","memory_bytes":1,"devices":65536})");
  }
  CHECK(error_of("\"nodes\":[" + nodes + "]").empty());
  CHECK(error_of("\"nodes\":[" + nodes + R"(,{"name":"one","memory_bytes":1}])") ==
        "c.json: nodes: a cluster has at most 1048576 devices, found 1048577");
}
