#include "tuning/hardware/link_changes.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A chain of nodes, each link with such a share of 10 ms.
std::vector<Probe> chain(const std::vector<double>& shares) {
  std::vector<Probe> probes;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    Probe one{-1, "n" + std::to_string(i), "n" + std::to_string(i + 1), "inter_node", 10 / shares[i]};
    one.round_trip_ms = 0.1;
    probes.push_back(one);
  }
  return probes;
}

const std::vector<double> kHealthy{1, 1, 1};

}  // namespace

TEST_CASE("one slow link is a change of its pair, and those that were probed healthy have none", "[links]") {
  const LinkChanges changes = link_changes(chain(kHealthy), chain({1, 0.25, 1}));
  CHECK(changes.levels.empty());
  CHECK(changes.pairs == std::map<NodePair, LinkChange>{{{"n1", "n2"}, {0.25, 0}}});
  // n1 reaches n0 as ever and n2 n3: neither is why.
  CHECK(changes.unprobed.empty());
  CHECK(to_text(changes) == "the link of n1 to n2 at 25.0 % of its bandwidth");
}

TEST_CASE("what all links of a level have lost is the level's, and each pair's is beside it", "[links]") {
  const LinkChanges changes = link_changes(chain(kHealthy), chain({0.5, 0.2, 0.52}));
  CHECK(changes.levels.at("inter_node").share == Approx(0.52));
  REQUIRE(changes.pairs.size() == 1);
  CHECK(changes.pairs.at({"n1", "n2"}).share == Approx(0.2));
  CHECK(to_text(changes) ==
        "inter_node links at 52.0 % of their bandwidth; the link of n1 to n2 at 20.0 % of its bandwidth");
  // The only one of its level.
  CHECK(link_changes(chain({1}), chain({0.3})).levels.at("inter_node").share == Approx(0.3));
  CHECK(link_changes(chain({1}), chain({0.3})).pairs.empty());
}

TEST_CASE("what lies behind the only link that is known of a node is taken to be no better", "[links]") {
  const LinkChanges changes = link_changes(chain(kHealthy), chain({0.25, 1, 1}));
  CHECK(changes.pairs.size() == 1);
  CHECK(changes.unprobed == std::map<NodePair, LinkChange>{{{"n0", "n2"}, {0.25, 0}}, {{"n0", "n3"}, {0.25, 0}}});
  // Both links of n1: then it is n1.
  const LinkChanges both = link_changes(chain(kHealthy), chain({0.25, 0.3, 1}));
  CHECK(both.pairs.size() == 2);
  CHECK(both.unprobed.at({"n1", "n3"}).share == Approx(0.3));
}

TEST_CASE("latency is a pair's as well, and a faster link is not hidden by others", "[links]") {
  std::vector<Probe> now = chain(kHealthy);
  now[2].round_trip_ms = 20.1;
  now[0].ms = 4;
  const LinkChanges changes = link_changes(chain(kHealthy), now);
  CHECK(changes.levels.empty());
  CHECK(changes.pairs.at({"n2", "n3"}).message_ms == Approx(10));
  CHECK(changes.pairs.at({"n0", "n1"}).share == Approx(2.5));
}

TEST_CASE("ranks of a node that live in several networks are of that node, whose worst link counts", "[links]") {
  const auto probe = [](int from, double ms) {
    return Probe{-1, "n0 rank " + std::to_string(from), "n0 rank " + std::to_string(from + 1), "intra_node", ms};
  };
  const LinkChanges changes = link_changes({probe(0, 10), probe(1, 10)}, {probe(0, 10), probe(1, 40)});
  CHECK(changes.levels.at("intra_node").share == Approx(0.25));
  const Probe across{-1, "n0 rank 1", "n1 rank 2", "inter_node", 10};
  Probe slow = across;
  slow.ms = 20;
  const Probe other{-1, "n1 rank 3", "n2", "inter_node", 10};
  CHECK(link_changes({across, other}, {slow, other}).pairs.contains({"n0", "n1"}));
}
