#include "tuning/hardware/diagnosis.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"
#include "tuning/hardware/link_changes.hpp"

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
    const auto changes = link_changes(before, now);
    CHECK(changes.levels.empty());
    CHECK(changes.unprobed.empty());
    REQUIRE(changes.pairs.size() == 1);
    CHECK(changes.pairs.at({"n3", "n4"}).share == Approx(0.38).epsilon(0.15));
    CHECK(changes.pairs.at({"n3", "n4"}).message_ms == 0);
  }
}

TEST_CASE("probes of a cluster that is as it was name nothing, seeds 1 to 500", "[diagnosis]") {
  int named = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const std::vector<Probe> before = probed(seed);
    const std::vector<Probe> now = probed(1000 + seed);
    named += diagnose(before, now).empty() && link_changes(before, now).empty() ? 0 : 1;
  }
  CHECK(named == 0);
}

TEST_CASE("what has changed does not count as what the few others scatter by", "[diagnosis]") {
  const std::vector<double> shares = {0.742, 0.997, 1.050, 0.963, 1.002};  // of four devices and their links
  std::vector<Probe> before;
  for (int i = 0; i < 4; ++i) before.push_back({i, "n0", "", "", 10, "clock"});
  before.push_back({-1, "n0", "", "intra_node", 10});
  std::vector<Probe> now = before;
  for (std::size_t i = 0; i < now.size(); ++i) now[i].ms /= shares[i];
  CHECK(to_text(diagnose(before, now)) == "device 0 of node n0 runs at 74 % of its clock");
  now[0].ms = before[0].ms;
  CHECK(diagnose(before, now).empty());
}

TEST_CASE("a throttled device, and all devices at once", "[diagnosis]") {
  const std::vector<Probe> before = probed(1);
  std::vector<Probe> now = probed(2);
  REQUIRE(now[4].device == 2);
  now[4].ms /= 0.6;
  CHECK(to_text(diagnose(before, now)).find("device 2 of node n1 is at ") == 0);
  CHECK(link_changes(before, now).empty());
  for (Probe& one : now) {
    if (one.device >= 0 && one.device != 2) one.ms /= 0.6;
  }
  const std::vector<Finding> findings = diagnose(before, now);
  CHECK(findings.size() == 12);
  CHECK(to_text(findings).find("; and 9 more") != std::string::npos);
}

TEST_CASE("what got faster does not explain why steps got slower", "[diagnosis]") {
  const std::vector<Probe> before = probed(3);
  std::vector<Probe> now = probed(4);
  link(now, "n1", "n2").ms *= 3;
  link(now, "n3", "n4").ms /= 3;
  const std::vector<Finding> all = diagnose(before, now);
  REQUIRE(all.size() == 2);
  REQUIRE(explaining(all, true).size() == 1);
  CHECK(explaining(all, true)[0].probe.node == "n1");
  REQUIRE(explaining(all, false).size() == 1);
  CHECK(explaining(all, false)[0].probe.node == "n3");
}

TEST_CASE("probes of other work and of another plan's steps are not compared, and their own noise is no change",
          "[diagnosis]") {
  const std::vector<Probe> before{{0, "n0", "", "", 10, "computation"},
                                  {0, "n0", "", "", 10, training_work("a")},
                                  {1, "n0", "", "", 10, training_work("a")},
                                  {2, "n1", "", "", 10, "memory", 0.5}};
  const std::vector<Probe> now{{0, "n0", "", "", 20, "clock"},
                               {0, "n0", "", "", 20, training_work("b")},
                               {1, "n0", "", "", 20, training_work("a")},
                               {2, "n1", "", "", 14, "memory"}};
  const std::vector<Finding> findings = diagnose(before, now);
  REQUIRE(findings.size() == 1);
  CHECK(to_text(findings) == "device 1 of node n0 computes its part of a step at 50 % of its speed");
}

TEST_CASE("devices are as slow as their ranks' steps say, else as their clocks, else as their node's CPUs",
          "[diagnosis]") {
  const ClusterText cluster(
      R"({"schema": "trimtab.cluster/1", "nodes": [{"name": "n0", "devices": 2, "memory_bytes": 1},
      {"name": "n1", "devices": 2, "memory_bytes": 1}]})");
  const Finding cpus{{2, "n1", "", "", 20, "computation"}, 0.5};
  const Finding memory{{2, "n1", "", "", 20, "memory"}, 0.3};
  const Finding clock{{1, "n0", "", "", 20, "clock", 0, "throttled: sw_power_cap"}, 0.7};
  const Finding steps{{1, "n0", "", "", 20, training_work("a")}, 0.6};
  const Finding link{{-1, "n0", "n1", "inter_node", 20}, 0.2};
  using Shares = std::map<std::int32_t, double>;
  CHECK(device_shares({cpus, memory, link}, cluster) == Shares{{2, 0.5}, {3, 0.5}});
  CHECK(device_shares({cpus, clock, link}, cluster) == Shares{{1, 0.7}});
  CHECK(device_shares({clock, steps}, cluster) == Shares{{1, 0.6}});
  CHECK(device_shares({steps, clock}, cluster) == Shares{{1, 0.6}});
  CHECK(to_text({clock}) == "device 1 of node n0 runs at 70 % of its clock (throttled: sw_power_cap)");
}

TEST_CASE("a link that the job fills is at what it can carry, whatever it leaves of it, and the use is said",
          "[diagnosis]") {
  Probe before{-1, "n0", "n1", "inter_node", 10};
  before.shared_ms = 14;
  before.used = 0.3;
  Probe now{-1, "n0", "n1", "inter_node", 40};  // at 25 %, of which the job leaves little
  now.shared_ms = 10 / 0.07;
  now.shared_spread = 0.9;
  now.used = 0.72;
  const std::vector<Finding> findings = diagnose({before}, {now});
  CHECK(to_text(findings) ==
        "the link of node n0 to n1 is at 25 % of its bandwidth, of which others, the job among them, used 72 % while "
        "it was probed");
  CHECK(link_changes({before}, {now}).levels.at("inter_node").share == Approx(0.25));
  // Filled, and as fast as ever.
  now.ms = 10.2;
  CHECK(diagnose({before}, {now}).empty());
  CHECK(link_changes({before}, {now}).empty());
}

TEST_CASE("probes of a link of which only one knows the use are compared by what others left", "[diagnosis]") {
  const Probe before{-1, "n0", "n1", "inter_node", 14};  // by an agent of an earlier release
  Probe now{-1, "n0", "n1", "inter_node", 10};
  now.shared_ms = 14.2;
  now.used = 0.3;
  CHECK(diagnose({before}, {now}).empty());
  CHECK(diagnose({now}, {before}).empty());
  now.shared_ms = 56;
  CHECK(to_text(diagnose({before}, {now})) == "the link of node n0 to n1 is at 25 % of its bandwidth");
}

TEST_CASE("a link whose latency has grown is named by its round trips, whatever its bandwidth", "[diagnosis]") {
  Probe before{-1, "n0", "n1", "inter_node", 10};
  before.round_trip_ms = 0.2;
  Probe now = before;
  now.round_trip_ms = 20.4;
  const std::vector<Finding> findings = explaining(diagnose({before}, {now}), true);
  CHECK(to_text(findings) == "a round trip over the link of node n0 to n1 takes 20.4 ms, 0.20 ms before");
  const auto changes = link_changes({before}, {now});
  CHECK(changes.levels.at("inter_node").share == 1);
  CHECK(changes.levels.at("inter_node").message_ms == Approx(10.1));
  CHECK(to_text(changes) == "inter_node links: 10.1 ms more for a message");
  CHECK(explaining(diagnose({now}, {before}), false).size() == 1);
  CHECK(to_text(link_changes({now}, {before})) == "inter_node links: 10.1 ms less for a message");
  now.ms = 25;
  CHECK(diagnose({before}, {now}).size() == 2);
  CHECK(to_text(link_changes({before}, {now})) ==
        "inter_node links at 40.0 % of their bandwidth, 10.1 ms more for a message");
}

TEST_CASE("round trips that wait, for a processor or behind a job's bytes, are no link's latency", "[diagnosis]") {
  Probe before{-1, "n0", "n1", "inter_node", 10};
  before.round_trip_ms = 0.05;
  Probe now = before;
  now.round_trip_ms = 0.4;  // eight times as long, and a wake-up
  CHECK(diagnose({before}, {now}).empty());
  before.round_trip_ms = 20;
  now.round_trip_ms = 30;
  CHECK(diagnose({before}, {now}).empty());
  now.round_trip_ms = 200;
  CHECK(diagnose({before}, {now}).size() == 1);
  now.used = 0.9;
  CHECK(diagnose({before}, {now}).empty());
  CHECK(link_changes({before}, {now}).empty());
  now.used = 0;
  now.round_trip_ms = 0;  // not told
  CHECK(diagnose({before}, {now}).empty());
}

TEST_CASE("of several takes the middle one counts, and a change must lie beyond all of them", "[diagnosis]") {
  const auto takes = [](std::vector<double> all) {
    std::vector<std::vector<Probe>> probes;
    for (const double ms : all)
      probes.push_back({{0, "n0", "", "", ms, "computation"}, {-1, "n0", "n1", "inter_node", 10}});
    return middle_of(probes);
  };
  const std::vector<Probe> before = takes({10, 10.2, 19});
  REQUIRE(before.size() == 2);
  const auto device = std::ranges::find_if(before, [](const Probe& one) { return one.device == 0; });
  CHECK(device->ms == 10.2);
  CHECK(device->longest == Approx(19 / 10.2));
  CHECK(device->shortest == Approx(10 / 10.2));
  // One of three was not slower than all before.
  CHECK(diagnose(before, takes({30, 18, 29})).empty());
  const std::vector<Finding> slower = diagnose(before, takes({30, 22, 29}));
  REQUIRE(slower.size() == 1);
  CHECK(slower[0].share == Approx(10.2 / 29));
  CHECK(diagnose(takes({30, 22, 29}), before).size() == 1);
}

TEST_CASE("what one take lacks the others tell, and the shortest round trip is the link's", "[diagnosis]") {
  Probe link{-1, "n0", "n1", "inter_node", 10};
  link.round_trip_ms = 0.4;
  Probe again = link;
  again.ms = 12;
  again.round_trip_ms = 0.2;
  const Probe device{1, "n1", "", "", 5, "memory"};
  const std::vector<Probe> middle = middle_of({{link}, {again, device}, {link}});
  REQUIRE(middle.size() == 2);
  CHECK(std::ranges::count_if(middle, [](const Probe& one) { return one.device == 1 && one.longest == 1; }) == 1);
  CHECK(std::ranges::count_if(middle, [](const Probe& one) { return one.round_trip_ms == 0.2 && one.ms == 10; }) == 1);
  CHECK(middle_of({}).empty());
}

TEST_CASE("ranks that wait for a link are no slower devices, and one that is slower than the others is",
          "[diagnosis]") {
  const std::string work = training_work("plan");
  std::vector<Probe> before{{-1, "n0 rank 2", "n0 rank 3", "intra_node", 10}};
  for (std::int32_t device = 0; device < 4; ++device) before.push_back({device, "n0", "", "", 100, work});
  // As it was on four ranks of examples/netns when the link of one changed.
  std::vector<Probe> now = before;
  now[0].ms = 40;
  for (const auto& [at, share] : {std::pair(1, 0.835), {2, 0.874}, {3, 0.888}, {4, 0.93}}) now[at].ms = 100 / share;
  const std::vector<Finding> findings = diagnose(before, now);
  CHECK((to_text(findings) == "the links inside of node n0 rank 2 are at 25 % of their bandwidth" ||
         to_text(findings) == "the link of node n0 rank 2 to n0 rank 3 is at 25 % of its bandwidth"));
  CHECK(confidence_of(findings) >= kNamedFrom);
  CHECK(not_sure(before, now).size() >= 2);
  // Nor are they where takes of the link leave it open whether it has changed: then nobody is named.
  now[0].shortest = 0.3;
  now[0].longest = 1.5;
  CHECK(diagnose(before, now).empty());
  CHECK(not_sure(before, now).size() == findings.size() + 3);
  now[0].shortest = now[0].longest = 1;
  // A device that throttles meanwhile is named all the same.
  now[3].ms = 100 / 0.4;
  CHECK(diagnose(before, now).size() == 2);
  // Where no link has changed, all that compute slower are.
  now = before;
  for (std::int32_t device = 0; device < 4; ++device) now[device + 1].ms = 125;
  CHECK(diagnose(before, now).size() == 4);
}

TEST_CASE("nobody is named whose takes leave it open, and how sure a name is can be said", "[diagnosis]") {
  Probe device{0, "n0", "", "", 10, "computation"};
  device.shortest = 0.85;
  device.longest = 1.2;
  const Probe other{1, "n1", "", "", 10, "computation"};
  Probe slower = device;
  slower.ms = 13;
  CHECK(diagnose({device, other}, {slower, other}).empty());
  slower.ms = 40;
  CHECK(diagnose({device, other}, {slower, other}).size() == 1);
  CHECK(confidence_text(0.97) == "97.0 %");
  CHECK(confidence_text(0.99999) == "more than 99.9 %");
}
