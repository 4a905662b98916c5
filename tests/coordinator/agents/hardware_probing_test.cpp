// The coordinator's side of probes, by manual clock, with agents that answer as the test says.

#include "agents/hardware_probing.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

struct Agents {
  ManualClock clock;
  std::set<std::string> away;
  std::set<std::string> counts;
  std::vector<std::pair<std::string, wire::ToAgent>> sent;
  std::vector<HardwareProbed> answers;
  HardwareProbing probing{clock,
                          [this](const std::string& node, const wire::ToAgent& message) {
                            if (away.contains(node)) return false;
                            sent.emplace_back(node, message);
                            return true;
                          },
                          [] { return std::string(32, 't'); }};

  static HardwareProbing::Wanted job(const std::string& name, int nodes, int ranks_of_node = 1) {
    HardwareProbing::Wanted wanted{name, {}, "eth0"};
    for (int i = 0; i < nodes; ++i) wanted.nodes.push_back({"n" + std::to_string(i), i * ranks_of_node, ranks_of_node});
    return wanted;
  }
  void probe(const HardwareProbing::Wanted& wanted) {
    probing.probe(wanted, [this](HardwareProbed probed) { answers.push_back(std::move(probed)); });
  }
  // The first report of a node: its CPUs took `ms`, and its ranks live in one network.
  void begun(const std::string& node, std::uint64_t id, std::vector<std::uint32_t> ranks, double ms = 5) {
    wire::ProbeReport report;
    report.set_id(id);
    wire::ProbedDevice& device = *report.add_devices();
    device.set_work("computation");
    device.set_ms(ms);
    wire::ProbeEndpoint& endpoint = *report.add_endpoints();
    for (const std::uint32_t rank : ranks) endpoint.add_ranks(rank);
    endpoint.set_address("10.0.0." + std::to_string(ranks.front()));
    endpoint.set_port(9000);
    endpoint.set_counts(counts.contains(node));
    probing.report(node, report);
  }
  void measured(const std::string& node, const wire::ProbeLink& link, double bytes_per_s,
                const std::string& error = "") {
    wire::ProbeReport report;
    report.set_id(link.id());
    report.set_error(error);
    report.mutable_link()->set_link(link.link());
    report.mutable_link()->set_bytes_per_s(bytes_per_s);
    report.mutable_link()->set_round_trip_us(120);
    probing.report(node, report);
  }
  // Orders to measure a link since the last call, by node.
  std::vector<std::pair<std::string, wire::ProbeLink>> links() {
    std::vector<std::pair<std::string, wire::ProbeLink>> found;
    for (const auto& [node, message] : std::exchange(sent, {})) {
      if (message.has_probe_link()) found.emplace_back(node, message.probe_link());
    }
    return found;
  }
};

}  // namespace

TEST_CASE("nodes' devices and the links between neighbours are probed, no node in two links at once", "[probing]") {
  Agents agents;
  agents.probe(Agents::job("gpt", 4));
  REQUIRE(agents.sent.size() == 4);
  for (const auto& [node, message] : agents.sent) {
    CHECK(message.probe_begin().job() == "gpt");
    CHECK(message.probe_begin().token().size() == 32);
    CHECK(message.probe_begin().interface() == "eth0");
  }
  for (std::uint32_t i = 0; i < 4; ++i) agents.begun("n" + std::to_string(i), 1, {i});
  const auto even = agents.links();
  REQUIRE(even.size() == 2);
  CHECK(even[0].first == "n0");
  CHECK(even[0].second.address() == "10.0.0.1");
  CHECK(even[1].first == "n2");
  for (const auto& [node, link] : even) agents.measured(node, link, 1e9);
  const auto odd = agents.links();
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].first == "n1");
  CHECK(agents.answers.empty());
  agents.measured("n1", odd[0].second, 38e7);
  REQUIRE(agents.answers.size() == 1);
  const HardwareProbed& answer = agents.answers[0];
  CHECK(answer.error.empty());
  REQUIRE(answer.probes.size() == 7);
  CHECK(answer.probes[0].work == "computation");
  CHECK(answer.probes[6].node == "n1");
  CHECK(answer.probes[6].peer == "n2");
  CHECK(answer.probes[6].level == "inter_node");
  CHECK(answer.probes[6].ms == Approx(1048576 / 38e7 * 1e3));
  CHECK(answer.probes[6].remark == "round trip 120 us");
  REQUIRE(agents.sent.size() == 4);
  for (const auto& [node, message] : agents.sent) CHECK(message.has_probe_end());
}

TEST_CASE("what a node says of its links' counters comes with the probe, where it is sure enough", "[probing]") {
  Agents agents;
  agents.probe(Agents::job("gpt", 1, 4));
  wire::ProbeReport report;
  report.set_id(1);
  const auto add = [&report](const std::string& link, double confidence, std::int32_t device) {
    wire::LinkFault& fault = *report.add_faults();
    fault.set_link(link);
    fault.set_reading("up");
    fault.set_what("is not active, and was");
    fault.set_confidence(confidence);
    fault.set_device(device);
    fault.set_within(true);
  };
  add("NVLink 3 of GPU 2", 0.999, 2);
  add("NVLink 4 of GPU 9", 0.999, 9);  // no rank's
  add("NVLink 5 of GPU 2", 0.9, 2);
  add("NVLink 6 of GPU 2", std::nan(""), 2);
  wire::ProbedDevice& device = *report.add_devices();
  device.set_work("computation");
  device.set_ms(5);
  agents.probing.report("n0", report);
  REQUIRE(agents.answers.size() == 1);
  const auto& faults = agents.answers[0].faults;
  REQUIRE(faults.size() == 2);
  CHECK(to_text(faults) ==
        "NVLink 3 of GPU 2 of node n0 is not active, and was; NVLink 4 of GPU 9 of node n0 is not active, and was");
  CHECK(faults[0].device == 2);
  CHECK(faults[1].device == -1);
}

TEST_CASE("ranks of one node in several networks are probed one link after the other, inside of one too", "[probing]") {
  Agents agents;
  agents.probe(Agents::job("gpt", 1, 4));
  wire::ProbeReport report;
  report.set_id(1);
  for (const std::vector<std::uint32_t>& ranks : {std::vector<std::uint32_t>{2, 3}, {0}, {1}}) {
    wire::ProbeEndpoint& endpoint = *report.add_endpoints();
    for (const std::uint32_t rank : ranks) endpoint.add_ranks(rank);
    endpoint.set_address("10.0.0.1");
    endpoint.set_port(9);
  }
  agents.probing.report("n0", report);
  for (int i = 0; i < 3; ++i) {
    const auto one = agents.links();
    REQUIRE(one.size() == 1);
    agents.measured("n0", one[0].second, 1e9);
  }
  REQUIRE(agents.answers.size() == 1);
  const auto& probes = agents.answers[0].probes;
  REQUIRE(probes.size() == 3);
  CHECK(probes[0].node == "n0 rank 0");
  CHECK(probes[0].peer == "n0 rank 1");
  CHECK(probes[0].level == "intra_node");
  CHECK(probes[2].node == "n0 rank 2");
  CHECK(probes[2].peer.empty());
}

TEST_CASE("a link that is measured beside a job is as fast as both ends say that it carried", "[probing]") {
  Agents agents;
  agents.counts = {"n0", "n1"};
  agents.probe(Agents::job("gpt", 3));
  for (std::uint32_t i = 0; i < 3; ++i) agents.begun("n" + std::to_string(i), 1, {i});
  const auto counted = agents.links();
  REQUIRE(counted.size() == 1);
  CHECK(counted[0].second.counts());
  wire::ProbeReport report;
  report.set_id(1);
  wire::ProbedLink& link = *report.mutable_link();
  link.set_bytes_per_s(7e6);
  link.set_spread(0.8);
  link.mutable_capacity()->set_bytes_per_s(25e6);
  link.mutable_capacity()->set_spread(0.01);
  link.mutable_capacity()->set_used(0.72);
  agents.probing.report("n0", report);
  const auto plain = agents.links();
  REQUIRE(plain.size() == 1);
  CHECK_FALSE(plain[0].second.counts());  // n2 is of an earlier release
  agents.measured("n1", plain[0].second, 7e6);
  REQUIRE(agents.answers.size() == 1);
  const Probe& beside = agents.answers[0].probes[3];
  CHECK(beside.ms == Approx(1048576 / 25e6 * 1e3));
  CHECK(beside.spread == 0.01);
  CHECK(beside.shared_ms == Approx(1048576 / 7e6 * 1e3));
  CHECK(beside.shared_spread == 0.8);
  CHECK(beside.used == 0.72);
  const Probe& as_before = agents.answers[0].probes[4];
  CHECK(as_before.ms == Approx(1048576 / 7e6 * 1e3));
  CHECK(as_before.shared_ms == 0);
}

TEST_CASE("a capacity that cannot be is none", "[probing]") {
  Agents agents;
  agents.probe(Agents::job("gpt", 2));
  for (std::uint32_t i = 0; i < 2; ++i) agents.begun("n" + std::to_string(i), 1, {i});
  wire::ProbeReport report;
  report.set_id(1);
  report.mutable_link()->set_bytes_per_s(7e6);
  report.mutable_link()->mutable_capacity()->set_bytes_per_s(-1);
  agents.probing.report("n0", report);
  REQUIRE(agents.answers.size() == 1);
  CHECK(agents.answers[0].probes[2].ms == Approx(1048576 / 7e6 * 1e3));
  CHECK(agents.answers[0].probes[2].shared_ms == 0);
}

TEST_CASE("what does not come is missing, and the rest is told", "[probing]") {
  Agents agents;
  agents.away = {"n2"};
  agents.probe(Agents::job("gpt", 4));
  agents.begun("n0", 1, {0});
  agents.begun("n1", 1, {1});
  SECTION("a node that does not answer is waited for so long") {
    agents.probing.tick();
    CHECK(agents.links().empty());
    agents.clock.advance(kProbeStage);
    agents.probing.tick();
    const auto links = agents.links();
    REQUIRE(links.size() == 1);
    agents.measured("n0", links[0].second, 0, "no way there");
    REQUIRE(agents.answers.size() == 1);
    CHECK(agents.answers[0].probes.size() == 2);
    CHECK(agents.answers[0].error.empty());
  }
  SECTION("a node that goes away is not waited for, a link that is not measured for so long") {
    agents.probing.node_gone("n3");
    REQUIRE(agents.links().size() == 1);
    agents.clock.advance(kProbeStage);
    agents.probing.tick();
    REQUIRE(agents.answers.size() == 1);
    CHECK(agents.answers[0].probes.size() == 2);
  }
}

TEST_CASE("with no answer at all there is a reason, and numbers that cannot be are left out", "[probing]") {
  Agents agents;
  agents.away = {"n0", "n1"};
  agents.probe(Agents::job("gpt", 2));
  REQUIRE(agents.answers.size() == 1);
  CHECK(agents.answers[0].error == "node n0 is not connected");
  agents.away.clear();
  agents.probe(Agents::job("gpt", 2));
  agents.begun("n0", 2, {0}, -1);
  agents.begun("n1", 2, {1}, std::numeric_limits<double>::quiet_NaN());
  const auto links = agents.links();
  REQUIRE(links.size() == 1);
  agents.measured("n0", links[0].second, std::numeric_limits<double>::infinity());
  REQUIRE(agents.answers.size() == 2);
  CHECK(agents.answers[1].probes.empty());
  CHECK_FALSE(agents.answers[1].error.empty());
}

TEST_CASE("a probe is taken as often as asked, one after the other, and the middle one is told", "[probing]") {
  Agents agents;
  auto wanted = Agents::job("gpt", 1);
  wanted.takes = 3;
  agents.probe(wanted);
  agents.probe(Agents::job("bert", 1));
  agents.begun("n0", 1, {0}, 5);
  agents.begun("n0", 2, {0}, 9);
  CHECK(agents.answers.empty());
  agents.begun("n0", 3, {0}, 6);
  REQUIRE(agents.answers.size() == 1);
  REQUIRE(agents.answers[0].probes.size() == 1);
  CHECK(agents.answers[0].probes[0].ms == 6);
  CHECK(agents.answers[0].probes[0].longest == 1.5);
  CHECK(agents.sent.back().second.probe_begin().job() == "bert");
}

TEST_CASE("no further take begins that would end too late, or after one that told nothing", "[probing]") {
  Agents agents;
  auto wanted = Agents::job("gpt", 1);
  wanted.takes = 3;
  wanted.until = agents.clock.monotonic() + std::chrono::seconds(10);
  agents.probe(wanted);
  agents.clock.advance(std::chrono::seconds(4));
  agents.begun("n0", 1, {0}, 5);
  agents.clock.advance(std::chrono::seconds(4));
  agents.begun("n0", 2, {0}, 7);
  REQUIRE(agents.answers.size() == 1);  // a third would end at 12 s
  CHECK(agents.answers[0].probes[0].ms == 7);
  wanted.until = Nanoseconds::max();
  agents.probe(wanted);
  agents.begun("n0", 3, {0}, 5);
  agents.probing.node_gone("n0");
  REQUIRE(agents.answers.size() == 2);
  CHECK(agents.answers[1].error.empty());
  CHECK(agents.answers[1].probes[0].ms == 5);
}

TEST_CASE("a second job's probe waits for the first one's end, and late answers are of nobody", "[probing]") {
  Agents agents;
  agents.probe(Agents::job("gpt", 1));
  agents.probe(Agents::job("bert", 1));
  CHECK(agents.sent.size() == 1);
  agents.begun("n0", 1, {0});
  REQUIRE(agents.answers.size() == 1);
  CHECK(agents.sent.back().second.probe_begin().job() == "bert");
  agents.begun("n0", 1, {0});  // again
  CHECK(agents.answers.size() == 1);
  agents.begun("n0", 2, {0});
  CHECK(agents.answers.size() == 2);
}

TEST_CASE("the interface that a job names is found in what Gloo and NCCL are told", "[probing]") {
  const auto of = [](const std::string& name, const std::string& value) {
    Job job;
    job.environment[name] = value;
    return interface_of(job);
  };
  CHECK(interface_of({}).empty());
  CHECK(of("GLOO_SOCKET_IFNAME", "eth0,eth1") == "eth0");
  CHECK(of("NCCL_SOCKET_IFNAME", "=ib0") == "ib0");
  CHECK(of("NCCL_SOCKET_IFNAME", "^docker,lo").empty());
}
