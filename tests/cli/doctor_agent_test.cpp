#include "doctor_agent.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

using namespace trimtab;
using namespace trimtab::cli;

namespace {

agent::Configuration configured(const std::string& text) {
  const auto read = agent_configuration("agent.toml", text);
  if (!read.ok()) FAIL(read.error().message);
  return *read;
}

std::vector<Check> checks_of(const AgentPlace& place) {
  ManualClock clock;
  return running_agent_checks({place}, {}, clock, [&clock](Nanoseconds time) { clock.advance(time); });
}

// A port of loopback that answers so many requests with one page; with 0, where nobody answers.
class Server {
 public:
  explicit Server(std::string page, int answers) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
    if (answers == 0) return;
    REQUIRE(::listen(listener_, 4) == 0);
    thread_ = std::thread([this, answers, page = std::move(page)] {
      for (int i = 0; i < answers; ++i) answer(page);
    });
  }
  ~Server() {
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port = 0;

 private:
  void answer(const std::string& page) const {
    const int peer = ::accept(listener_, nullptr, nullptr);
    char request[4096];
    const std::string reply =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(page.size()) + "\r\n\r\n" + page;
    const bool served = ::read(peer, request, sizeof request) > 0 && ::write(peer, reply.data(), reply.size()) > 0;
    ::close(peer);
    if (!served) ::abort();
  }

  int listener_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("an agent is asked where agent.toml says, or at the port that somebody gives") {
  const AgentPlace usual = agent_place(std::nullopt, {}, std::nullopt);
  CHECK(usual.host == "127.0.0.1");
  CHECK(usual.port == 7421);
  CHECK_FALSE(usual.under_tls);
  const AgentPlace other = agent_place(configured("metrics_port = 7431\n"), {}, std::nullopt);
  CHECK(other.port == 7431);
  CHECK(other.configured);
  CHECK_FALSE(other.named);
  const AgentPlace named = agent_place(configured("metrics_port = 7431\n"), {}, std::uint16_t{7441});
  CHECK(named.port == 7441);
  CHECK(named.named);
}

TEST_CASE("an agent that shows metrics to others is asked under TLS, by a name of its certificate") {
  const std::string tls = "tls_authority = \"ca.crt\"\ntls_certificate = \"n0.crt\"\ntls_key = \"n0.key\"\n";
  const auto everywhere = configured(tls + "metrics_address = \"0.0.0.0\"\n");
  CHECK(agent_place(everywhere, {"n0.lab", "10.0.0.5"}, std::nullopt).host == "n0.lab");
  CHECK(agent_place(everywhere, {"n0.lab"}, std::nullopt).under_tls);
  const auto one = configured(tls + "metrics_address = \"10.0.0.5\"\n");
  CHECK(agent_place(one, {"n0.lab", "10.0.0.5"}, std::nullopt).host == "10.0.0.5");
  CHECK_FALSE(agent_place(configured(tls), {"n0.lab"}, std::nullopt).under_tls);
  const auto checks = checks_of(agent_place(everywhere, {"n0.lab"}, std::nullopt));
  REQUIRE(checks.size() == 1);
  CHECK(checks[0].health == Health::kWarn);
  CHECK(checks[0].remedy.find("--tls-certificate") != std::string::npos);
}

TEST_CASE("an agent that does not answer is told where one is configured or asked for") {
  const Server nobody("", 0);
  AgentPlace place;
  place.port = nobody.port;
  CHECK(checks_of(place).empty());
  place.configured = true;
  const auto configured_one = checks_of(place);
  REQUIRE(configured_one.size() == 1);
  CHECK(configured_one[0].health == Health::kWarn);
  CHECK(configured_one[0].found.find("127.0.0.1:" + std::to_string(place.port)) != std::string::npos);
  CHECK(configured_one[0].found.find("trimtab up") == std::string::npos);
  place.named = true;
  CHECK(checks_of(place).at(0).health == Health::kFail);
  place.port = 0;
  CHECK(checks_of(place).empty());
}

TEST_CASE("something else at an agent's port is no agent; one that answers is judged") {
  AgentPlace place;
  place.configured = true;
  {
    const Server other("node_load1 0.5\n", 1);
    place.port = other.port;
    CHECK(checks_of(place).at(0).found.find("something else answers") != std::string::npos);
  }
  const Server agent("trimtab_agent_ranks_running 2\ntrimtab_agent_coordinator_connected 1\n", 2);
  place.port = agent.port;
  CHECK(checks_of(place).at(0).found == "2 ranks, connected to the coordinator");
}
