// Both sides of a link's probe over real sockets on loopback.

#include "link_probe.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "probe_proof.hpp"
#include "rank_network.hpp"

#include <unistd.h>

using namespace trimtab;
using namespace trimtab::agent;

namespace {

const std::string kToken(kProbeTokenBytes, 'k');

// A listening side on a thread of its own.
class Serving {
 public:
  explicit Serving(LinkBudget budget = {}, Nanoseconds patience = std::chrono::seconds(20))
      : socket_(std::move(ProbeSocket::listen("127.0.0.1")).value()), port_(socket_.port()) {
    thread_ = std::thread([this, budget, end = clock_.monotonic() + patience] {
      status_ = serve_link(socket_, kToken, budget, {clock_, end, cancelled_});
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

  [[nodiscard]] ProbeWait wait() const { return {clock, clock.monotonic() + patience, cancelled}; }
  Result<LinkSpeed> probe(std::uint16_t port, const std::string& token = kToken, const LinkBudget& budget = {}) {
    return probe_link("127.0.0.1", port, token, budget, wait());
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
  CHECK_FALSE(probe_link("no-address", 80, kToken, {}, asker.wait()).ok());
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
