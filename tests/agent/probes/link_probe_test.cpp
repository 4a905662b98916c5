// Both sides of a link's probe over real sockets on loopback.

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "probes/link_conversation.hpp"
#include "probes/rank_network.hpp"

#include <unistd.h>

using namespace trimtab;
using namespace trimtab::agent;

namespace {

const std::string kToken(kProbeTokenBytes, 'k');

// A listening side on a thread of its own.
class Serving {
 public:
  explicit Serving(LinkBudget budget = {}, Nanoseconds patience = std::chrono::seconds(20),
                   const InterfaceSource& count = kernel_interface_bytes)
      : socket_(std::move(ProbeSocket::listen("127.0.0.1")).value()), port_(socket_.port()) {
    thread_ = std::thread([this, budget, count, end = clock_.monotonic() + patience] {
      status_ = serve_link(socket_, kToken, budget, {clock_, end, cancelled_}, count);
    });
  }
  ~Serving() { (void)end(); }

  Status end() {
    cancelled_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  SystemClock clock_;
  std::atomic<bool> cancelled_ = false;
  ProbeSocket socket_;
  std::uint16_t port_;
  Status status_;
  std::thread thread_;
};

struct Asker {
  SystemClock clock;
  std::atomic<bool> cancelled = false;
  Nanoseconds patience = std::chrono::seconds(20);
  InterfaceSource count = kernel_interface_bytes;

  [[nodiscard]] ProbeWait wait() const { return {clock, clock.monotonic() + patience, cancelled}; }
  Result<LinkSpeed> probe(std::uint16_t port, const std::string& token = kToken, const LinkBudget& budget = {}) {
    return probe_link("127.0.0.1", port, token, budget, wait(), count);
  }
};

LinkBudget small() {
  LinkBudget budget;
  budget.bytes = Bytes{8} << 20;
  budget.share = 0.9;
  return budget;
}

}  // namespace

TEST_CASE("a link is probed over loopback, one asker after the other, within its budget") {
  Serving serving(small());
  Asker asker;
  for (int i = 0; i < 2; ++i) {
    const auto speed = asker.probe(serving.port(), kToken, small());
    INFO((speed.ok() ? "" : speed.error().message));
    REQUIRE(speed.ok());
    CHECK(speed->bytes_per_s > 1e6);
    CHECK(speed->round_trip.count() > 0);
    CHECK(speed->moved <= small().bytes);
  }
  CHECK(serving.end().error().message.find("cancelled") != std::string::npos);
}

namespace {

// An interface that carries so much all the time.
InterfaceSource carrying(double received_per_s, double sent_per_s) {
  return [=](const ProbeSocket&) -> InterfaceReading {
    return [=]() -> std::optional<InterfaceBytes> {
      const double seconds = std::chrono::duration<double>(SystemClock().monotonic()).count();
      return InterfaceBytes{static_cast<std::uint64_t>(received_per_s * seconds),
                            static_cast<std::uint64_t>(sent_per_s * seconds)};
    };
  };
}

}  // namespace

TEST_CASE("both ends tell what their interfaces carried in the direction of a transfer, and the smaller counts") {
  const double there = GENERATE(2e11, 8e11);
  Serving serving(small(), std::chrono::seconds(20), carrying(there, 9e11));
  Asker asker;
  asker.count = carrying(8.5e11, 4e11);
  const auto speed = asker.probe(serving.port(), kToken, small());
  INFO((speed.ok() ? "" : speed.error().message));
  REQUIRE(speed.ok());
  REQUIRE(speed->capacity);
  // From here 4e11 leave and `there` arrive; from there 9e11 leave and 8.5e11 arrive.
  CHECK(speed->capacity->bytes_per_s == Approx(std::min(there, 4e11) / 1.045).epsilon(0.05));
  CHECK(speed->capacity->used > 0.5);
  CHECK(speed->bytes_per_s < 1e11);
}

TEST_CASE("an asker that does not count is served as before, and a link within one network has no counters") {
  Serving serving(small(), std::chrono::seconds(20), carrying(9e11, 9e11));
  Asker asker;
  asker.count = {};
  const auto plain = asker.probe(serving.port(), kToken, small());
  REQUIRE(plain.ok());
  CHECK_FALSE(plain->capacity);
  asker.count = kernel_interface_bytes;
  const auto within = asker.probe(serving.port(), kToken, small());
  REQUIRE(within.ok());
  CHECK_FALSE(within->capacity);
}

TEST_CASE("an interface's bytes are found in the kernel's table by its whole name") {
  const std::string table =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls\n"
      "    lo:     100       1    0    0    0     0          0         0      200       1    0    0    0     0\n"
      "  eth0: 5000000000 9 0 0 0 0 0 0 7000000000 8 0 0 0 0 0 0\n"
      "eth0.5:11 1 0 0 0 0 0 0 12 1 0 0 0 0 0 0\n"
      "  cut0: 1 2 3";
  CHECK(parse_interface_bytes(table, "eth0")->received == 5'000'000'000U);
  CHECK(parse_interface_bytes(table, "eth0")->sent == 7'000'000'000U);
  CHECK(parse_interface_bytes(table, "eth0.5")->sent == 12);
  CHECK_FALSE(parse_interface_bytes(table, "eth"));
  CHECK_FALSE(parse_interface_bytes(table, "cut0"));
  CHECK_FALSE(parse_interface_bytes("", "eth0"));
  CHECK(interface_with("127.0.0.1") == "lo");
  CHECK(interface_with("192.0.2.77").empty());
}

TEST_CASE("who does not know a probe's token moves nothing, and does not keep others away") {
  Serving serving(small());
  Asker asker;
  CHECK_FALSE(asker.probe(serving.port(), std::string(kProbeTokenBytes, 'x'), small()).ok());
  // One that says nothing is left after a second.
  const auto silent = ProbeSocket::connect("127.0.0.1", serving.port(), asker.wait());
  REQUIRE(silent.ok());
  CHECK(asker.probe(serving.port(), kToken, small()).ok());
}

TEST_CASE("who reads a probe's link learns nothing that opens the next connection") {
  Asker asker;
  const ProbeSocket reader = std::move(ProbeSocket::listen("127.0.0.1")).value();
  std::thread honest([&] { (void)asker.probe(reader.port(), kToken, small()); });
  const ProbeSocket connection = std::move(reader.accept(asker.wait())).value();
  CHECK(connection.send(ProbeChallenge{}, asker.wait()).ok());
  ProbeProof seen{};
  CHECK(connection.receive(seen, asker.wait()).ok());
  CHECK(std::memcmp(seen.data(), kToken.data(), seen.size()) != 0);
  asker.cancelled = true;
  honest.join();
  asker.cancelled = false;

  Serving serving(small());
  const auto opens = [&](const std::function<ProbeProof(const ProbeChallenge&)>& show) {
    const ProbeSocket socket = std::move(ProbeSocket::connect("127.0.0.1", serving.port(), asker.wait())).value();
    ProbeChallenge challenge{};
    CHECK(socket.receive(challenge, asker.wait()).ok());
    CHECK(socket.send(show(challenge), asker.wait()).ok());
    std::byte welcome{};
    return socket.receive({&welcome, 1}, asker.wait()).ok();
  };
  CHECK_FALSE(opens([&](const ProbeChallenge&) { return seen; }));
  CHECK(opens([](const ProbeChallenge& challenge) { return proof_of(kToken, challenge); }));
}

TEST_CASE("a probe's listening side moves no more than its budget") {
  LinkBudget less = small();
  less.bytes = Bytes{300} << 10;
  Serving serving(less);
  Asker asker;
  CHECK_FALSE(asker.probe(serving.port(), kToken, small()).ok());
}

TEST_CASE("a probe ends at its deadline and when it is cancelled, with nobody on the other side") {
  Asker asker;
  asker.patience = std::chrono::milliseconds(50);
  const ProbeSocket listening = std::move(ProbeSocket::listen("127.0.0.1")).value();
  const auto late = asker.probe(listening.port());  // connected by the kernel, and never answered
  CHECK(late.error().message.find("the probe's time was over") != std::string::npos);
  asker.patience = std::chrono::hours(1);
  asker.cancelled = true;
  CHECK(asker.probe(listening.port()).error().message.find("cancelled") != std::string::npos);
  asker.cancelled = false;
  CHECK_FALSE(asker.probe(1).ok());  // nobody listens
  CHECK_FALSE(probe_link("no-address", 80, kToken, {}, asker.wait(), {}).ok());
  Serving patient({}, std::chrono::milliseconds(20));
  CHECK_FALSE(patient.end().ok());
}

TEST_CASE("a network's address is the interface's, by name or by how it begins, or that of the route") {
  CHECK(address_for("lo", "").value() == "127.0.0.1");
  CHECK(address_for("l", "").ok());
  CHECK(address_for("", "127.0.0.1").value() == "127.0.0.1");
  const auto none = address_for("no-such-interface", "");
  CHECK(none.error().message.find("GLOO_SOCKET_IFNAME") != std::string::npos);
  CHECK_FALSE(address_for("", "no such host").ok());
}

TEST_CASE("ranks that live in this process's network share one; a rank that has ended has none") {
  const auto networks = networks_of({{3, ::getpid()}, {1, ::getppid()}, {2, 0x7ffffff0}});
  REQUIRE(networks.size() == 1);
  REQUIRE(networks[0].ranks.size() == 2);
  CHECK(networks[0].ranks[0].rank == 1);
  CHECK(enter_network_of(::getpid()).ok());
  CHECK_FALSE(enter_network_of(0x7ffffff0).ok());
}
