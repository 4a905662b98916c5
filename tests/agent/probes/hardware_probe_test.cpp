// The agent's side of a probe, with real threads and sockets, and the coordinator played by the test.

#include "probes/hardware_probe.hpp"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>

#include "../run_loop.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

struct Node {
  explicit Node(std::uint32_t rank = 0) : ranks{{rank, ::getpid()}, {rank + 1, ::getpid()}} {
    probe = std::make_unique<HardwareProbe>(parts(kernel_interface_bytes));
  }
  HardwareProbe::Surroundings parts(InterfaceSource count) {
    HardwareProbe::Surroundings parts{
        loop,
        clock,
        "127.0.0.1",
        [this](const std::string& job) { return job == "gpt" ? ranks : std::vector<NetworkRank>(); },
        {},
        [this](const wire::FromAgent& message) {
          reports.push_back(message.probe_report());
          return true;
        }};
    parts.link.bytes = Bytes{4} << 20;
    parts.link.share = 0.9;
    parts.count = std::move(count);
    return parts;
  }

  static wire::ProbeBegin order(std::uint64_t id) {
    wire::ProbeBegin begin;
    begin.set_id(id);
    begin.set_job("gpt");
    begin.set_token(std::string(32, 't'));
    begin.set_deadline_s(30);
    begin.set_devices(true);
    return begin;
  }
  const wire::ProbeReport& next() {
    const std::size_t had = reports.size();
    REQUIRE(run_until(loop, [&] { return reports.size() > had; }));
    return reports.back();
  }
  wire::ProbeLink to(const wire::ProbeEndpoint& endpoint, std::uint64_t id) {
    wire::ProbeLink link;
    link.set_id(id);
    link.set_link(7);
    link.set_from_rank(endpoint.ranks(0));
    link.set_address(endpoint.address());
    link.set_port(endpoint.port());
    return link;
  }

  std::vector<NetworkRank> ranks;
  net::EventLoop loop;
  SystemClock clock;
  std::vector<wire::ProbeReport> reports;
  std::unique_ptr<HardwareProbe> probe;
};

}  // namespace

TEST_CASE("what the counters of links say goes with the first report", "[hardware_probe]") {
  Node node;
  HardwareProbe::Surroundings parts = node.parts(kernel_interface_bytes);
  parts.faults = [] {
    return std::vector<host::LinkFault>{{"NVLink 3 of GPU 2", "up", "is not active, and was", 0.999, 2, true, false}};
  };
  node.probe = std::make_unique<HardwareProbe>(std::move(parts));
  node.probe->begin(Node::order(4));
  const wire::ProbeReport& report = node.next();
  REQUIRE(report.faults_size() == 1);
  CHECK(report.faults(0).link() == "NVLink 3 of GPU 2");
  CHECK(report.faults(0).what() == "is not active, and was");
  CHECK(report.faults(0).confidence() == 0.999);
  CHECK(report.faults(0).device() == 2);
  CHECK(report.faults(0).within());
  CHECK_FALSE(report.faults(0).across());
  CHECK(report.devices_size() > 0);
}

TEST_CASE("a node tells its CPUs' speed and where its ranks' network can be reached, then how fast the link is") {
  Node node(4);
  node.probe->begin(Node::order(3));
  const wire::ProbeReport begun = node.next();
  CHECK(begun.id() == 3);
  CHECK(begun.error().empty());
  REQUIRE(begun.devices_size() == 2);
  CHECK(begun.devices(0).work() == "computation");
  CHECK(begun.devices(0).ms() > 0);
  REQUIRE(begun.endpoints_size() == 1);
  CHECK(begun.endpoints(0).ranks_size() == 2);
  CHECK(begun.endpoints(0).address() == "127.0.0.1");
  node.probe->link(node.to(begun.endpoints(0), 3));
  const wire::ProbeReport& link = node.next();
  CHECK(link.error().empty());
  CHECK(link.link().link() == 7);
  CHECK(link.link().bytes_per_s() > 1e6);
  CHECK(link.link().round_trip_us() > 0);
  CHECK(link.link().bytes() <= std::uint64_t{4} << 20);
  CHECK_FALSE(link.link().has_capacity());
  node.probe->end(3);
  CHECK_FALSE(node.probe->running());
  // The port is closed with the probe.
  node.probe->begin(Node::order(4));
  (void)node.next();
  node.probe->link(node.to(begun.endpoints(0), 4));
  CHECK_FALSE(node.next().error().empty());
}

TEST_CASE("a link's capacity is told where its other end counts, and not to a coordinator that does not say so") {
  Node node;
  node.probe = std::make_unique<HardwareProbe>(node.parts([](const ProbeSocket&) -> InterfaceReading {
    return []() -> std::optional<InterfaceBytes> {
      const auto bytes = static_cast<std::uint64_t>(1000 * SystemClock().monotonic().count());
      return InterfaceBytes{bytes, bytes};
    };
  }));
  node.probe->begin(Node::order(3));
  const wire::ProbeReport begun = node.next();
  REQUIRE(begun.endpoints_size() == 1);
  CHECK(begun.endpoints(0).counts());
  wire::ProbeLink link = node.to(begun.endpoints(0), 3);
  node.probe->link(link);
  CHECK_FALSE(node.next().link().has_capacity());
  link.set_counts(true);
  node.probe->link(link);
  const wire::ProbeReport& counted = node.next();
  REQUIRE(counted.link().has_capacity());
  CHECK(counted.link().capacity().bytes_per_s() == Approx(1e12 / 1.045).epsilon(0.05));
  CHECK(counted.link().capacity().used() > 0.5);
  CHECK(counted.link().bytes_per_s() < 1e11);
}

TEST_CASE("a second probe is refused while one runs, and so are orders that make no sense") {
  Node node;
  node.probe->begin(Node::order(1));
  node.probe->begin(Node::order(2));
  REQUIRE(node.reports.size() == 1);
  CHECK(node.reports[0].id() == 2);
  CHECK(node.reports[0].error().find("another probe") != std::string::npos);
  const wire::ProbeReport begun = node.next();
  CHECK(begun.id() == 1);
  wire::ProbeLink stranger = node.to(begun.endpoints(0), 1);
  stranger.set_from_rank(17);
  node.probe->link(stranger);
  CHECK(node.reports.back().error().find("rank 17") != std::string::npos);
  node.probe->link(node.to(begun.endpoints(0), 9));
  CHECK(node.reports.back().error().find("no such probe") != std::string::npos);
  node.probe->link(node.to(begun.endpoints(0), 1));
  node.probe->link(node.to(begun.endpoints(0), 1));
  CHECK(node.reports.back().error().find("another link") != std::string::npos);
  node.probe->end(8);  // of nobody
  CHECK(node.probe->running());
  node.probe->end(1);
  wire::ProbeBegin weak = Node::order(5);
  weak.set_token("guess");
  node.probe->begin(weak);
  CHECK(node.reports.back().error().find("token") != std::string::npos);
  wire::ProbeBegin endless = Node::order(6);
  endless.set_deadline_s(0);
  node.probe->begin(endless);
  CHECK(node.reports.back().error().find("deadline") != std::string::npos);
}

TEST_CASE("a probe ends by itself at its deadline, with the link to the coordinator, and with the agent") {
  Node node;
  wire::ProbeBegin brief = Node::order(1);
  brief.set_deadline_s(0.05);
  node.probe->begin(brief);
  CHECK(run_until(node.loop, [&] {
    node.probe->tick();
    return !node.probe->running();
  }));
  node.probe->begin(Node::order(2));
  node.probe->link_closed();
  CHECK_FALSE(node.probe->running());
  node.probe->begin(Node::order(3));
  node.probe.reset();
  SUCCEED("the threads have ended");
}

TEST_CASE("an interface that the job names and the node lacks is told, and the devices all the same") {
  Node node;
  wire::ProbeBegin begin = Node::order(1);
  begin.set_interface("no-such-interface");
  node.probe->begin(begin);
  const wire::ProbeReport& begun = node.next();
  CHECK(begun.error().find("no-such-interface") != std::string::npos);
  CHECK(begun.endpoints_size() == 0);
  CHECK(begun.devices_size() == 2);
}

namespace {

// A process in a network namespace of its own, whose loopback is up, until it is destroyed. No pid where this user may
// not.
class IsolatedProcess {
 public:
  IsolatedProcess() {
    int ready[2];
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const char answer = ::unshare(CLONE_NEWNET) == 0 && raise_loopback() ? 'y' : 'n';
      if (::write(ready[1], &answer, 1) == 1) ::pause();
      ::_exit(0);
    }
    char answer = 'n';
    const bool told = ::read(ready[0], &answer, 1) == 1;
    ::close(ready[0]);
    ::close(ready[1]);
    isolated_ = told && answer == 'y';
  }
  ~IsolatedProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] bool isolated() const { return isolated_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  static bool raise_loopback() {
    const int descriptor = ::socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    return descriptor >= 0 && ::ioctl(descriptor, SIOCSIFFLAGS, &request) == 0;
  }
  pid_t pid_ = -1;
  bool isolated_ = false;
};

}  // namespace

TEST_CASE("a rank in a network namespace of its own is probed there") {
  const IsolatedProcess rank;
  if (!rank.isolated()) {
    WARN("this user may not make a network namespace");
    return;
  }
  Node node;
  node.ranks = {{0, ::getpid()}, {1, rank.pid()}};
  node.probe->begin(Node::order(1));
  const wire::ProbeReport begun = node.next();
  CHECK(begun.error().empty());
  REQUIRE(begun.endpoints_size() == 2);
  const bool second_is_isolated = begun.endpoints(1).ranks(0) == 1;
  const wire::ProbeEndpoint& inside = begun.endpoints(second_is_isolated ? 1 : 0);
  const wire::ProbeEndpoint& outside = begun.endpoints(second_is_isolated ? 0 : 1);
  node.probe->link(node.to(inside, 1));
  CHECK(node.next().error().empty());
  // Its port is not there outside.
  wire::ProbeLink wrong = node.to(inside, 1);
  wrong.set_from_rank(outside.ranks(0));
  node.probe->link(wrong);
  const std::string refused = node.next().error();
  CHECK((!refused.empty() || inside.port() == outside.port()));
}
