#include "native/stage/stage_shape.hpp"

#include <catch2/catch.hpp>

namespace trimtab::tuner {
namespace {

Cluster nodes_of(std::size_t count) {
  Cluster cluster;
  for (std::size_t n = 0; n < count; ++n) {
    cluster.nodes.push_back({"n" + std::to_string(n), "", 2, 1000, 5000, {}});
  }
  return cluster;
}

TEST_CASE("among nodes of one kind a stage's place is its first device in its node") {
  StagePlaces places(nodes_of(4));
  CHECK(places.of(0, 1) == 0);
  CHECK(places.of(3, 1) == 1);
  CHECK(places.of(6, 2) == 0);
  CHECK(places.of(5, 3) == 1);
}

TEST_CASE("all that a stage's price reads of a node tells places apart") {
  const auto apart = [](auto&& change) {
    Cluster cluster = nodes_of(4);
    change(cluster.nodes[1]);
    StagePlaces places(cluster);
    CHECK(places.of(4, 2) == places.of(0, 2));  // on like nodes
    CHECK(places.of(7, 1) == places.of(1, 1));
    return places.of(2, 2) != places.of(0, 2);
  };
  CHECK(apart([](Node& node) { node.memory_bytes = 999; }));
  CHECK(apart([](Node& node) { node.host_memory_bytes = 4999; }));
  CHECK(apart([](Node& node) { node.speeds = {0.5, 1}; }));
  CHECK_FALSE(apart([](Node& node) { node.speeds = {1, 2}; }));  // counts as what the costs say
  CHECK_FALSE(apart([](Node& node) { node.fingerprint = "other"; }));
}

TEST_CASE("a stage over several nodes lies like another over the same kinds in the same order") {
  Cluster cluster = nodes_of(6);
  cluster.nodes[1].memory_bytes = cluster.nodes[4].memory_bytes = 999;  // kinds a b a a b a
  StagePlaces places(cluster);
  CHECK(places.of(6, 4) == 0);   // a b
  CHECK(places.of(7, 3) == 1);   // from the second device of its node on
  CHECK(places.of(8, 4) == 2);   // b a
  CHECK(places.of(4, 4) == 4);   // a a, the first
  CHECK(places.of(6, 6) == 0);   // a b a
  CHECK(places.of(0, 12) == 0);  // all
}

TEST_CASE("nodes of other sizes have places of their own") {
  Cluster cluster = nodes_of(3);
  cluster.nodes[0].devices = 3;
  StagePlaces places(cluster);
  CHECK(places.of(3, 2) != places.of(0, 2));
  CHECK(places.of(5, 2) == places.of(3, 2));
}

TEST_CASE("links between nodes by name tell places over them apart, and no others") {
  Cluster cluster = nodes_of(5);
  cluster.links.push_back({"", std::pair<std::string, std::string>{"n2", "n1"}, 1e9, 1});
  cluster.links.push_back({"", std::pair<std::string, std::string>{"n3", "n4"}, 1e9, 1});
  StagePlaces places(cluster);
  CHECK(places.of(4, 2) == places.of(0, 2));  // inside of one node
  CHECK(places.of(4, 4) == places.of(0, 4));  // n2, n3: as n0, n1
  CHECK(places.of(2, 4) == 2);                // n1, n2
  CHECK(places.of(6, 4) == 2);                // n3, n4: linked as those
  CHECK(places.of(2, 6) == 2);                // n1, n2, n3
  CHECK(places.of(0, 6) == 0);                // n0, n1, n2: the link is at another end
  CHECK(places.of(4, 6) == 0);                // n2, n3, n4
}

TEST_CASE("the links inside of one node by name make it a kind of its own") {
  Cluster cluster = nodes_of(3);
  cluster.links.push_back({"", std::pair<std::string, std::string>{"n1", "n1"}, 1e9, 1});
  StagePlaces places(cluster);
  CHECK(places.of(2, 2) == 2);
  CHECK(places.of(4, 2) == 0);
}

}  // namespace
}  // namespace trimtab::tuner
