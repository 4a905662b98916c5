#include "doctor/looks.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "../page_server.hpp"
#include "doctor/services.hpp"

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
  return look_again(look_at_agents({place}, {}, clock), clock, [&clock](Nanoseconds time) { clock.advance(time); });
}

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
  const PageServer nobody({});
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
    const PageServer other({"node_load1 0.5\n"});
    place.port = other.port;
    CHECK(checks_of(place).at(0).found.find("something else answers") != std::string::npos);
  }
  const std::string page = "trimtab_agent_ranks_running 2\ntrimtab_agent_coordinator_connected 1\n";
  const PageServer agent({page, page});
  place.port = agent.port;
  CHECK(checks_of(place).at(0).found == "2 ranks, connected to the coordinator");
}

TEST_CASE("an agent's failure is told where it goes on between the two looks") {
  const std::string page = "trimtab_agent_ranks_running 2\ntrimtab_agent_coordinator_connected 1\n";
  const std::string failing = page + "trimtab_agent_batches_failed_total ";
  const PageServer agent({failing + "3\n", failing + "4\n"});
  AgentPlace place;
  place.port = agent.port;
  place.user = "ana";
  const auto checks = checks_of(place);
  REQUIRE(checks.size() == 1);
  CHECK(checks[0].name == "agent ana: storage");
  CHECK(checks[0].health == Health::kFail);
}
