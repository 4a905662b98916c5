// Whose jobs a node runs is what its certificate, or its token, allows: every other hello is refused, over real
// sockets.

#include <catch2/catch.hpp>

#include "../../net/test_authority.hpp"
#include "../fake_agent.hpp"
#include "../kept_log.hpp"
#include "../token_list.hpp"
#include "coordinator/daemon.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using net::CertificateKind;
using net::Role;

namespace {

struct Cluster {
  TokenList list;
  net::TestAuthority authority{list.directory, "ca"};
  KeptLog log;
  SystemClock clock;
  net::EventLoop loop;
  std::unique_ptr<Daemon> daemon;

  explicit Cluster(bool under_tls, const std::string& agents = net::kEveryTenant) : list(agents) {
    Settings settings;
    settings.port = 0;
    settings.state_directory = list.directory / "state";
    settings.tokens = list.directory / "tokens";
    if (under_tls) {
      (void)authority.credentials(CertificateKind::kCoordinator, "c0");
      settings.tls = authority.files("c0");
    }
    daemon = Daemon::start(loop, clock, settings).value();
  }
  static net::LinkOptions link(std::shared_ptr<net::Credentials> tls) {
    net::LinkOptions options;
    options.tls = std::move(tls);
    options.token = [] { return std::string(kAgentToken); };
    return options;
  }
  // "", or why it is refused.
  std::string refusal(const std::string& node, const std::string& tenant, std::shared_ptr<net::Credentials> tls) {
    FakeAgent one(loop, daemon->port(), node, "of " + node, link(std::move(tls)));
    one.tenant = tenant;
    one.start();
    REQUIRE(coordinator::run_until(loop, [&] { return one.welcomes > 0 || !one.refusals.empty(); }));
    return one.refusals.empty() ? "" : one.refusals.front();
  }
};

}  // namespace

TEST_CASE("a rank that has read its agent's key is no node of another tenant, and the log says so") {
  Cluster one(true);
  one.list.add("bob", Role::kOperate, "bob");
  one.daemon->reload();
  const auto of_ana = one.authority.node("n0", "ana");
  CHECK(one.refusal("n0", "ana", of_ana).empty());
  CHECK(one.refusal("n0", "", of_ana).empty());
  CHECK_THAT(one.refusal("n0", "*", of_ana), Contains("node n0 says that it runs jobs of all tenants"));
  CHECK_THAT(one.refusal("n0", "bob", of_ana), Contains("is for those of tenant 'ana'"));
  CHECK_THAT(one.log.text(),
             Contains("refused (node): an agent at 127.0.0.1: node n0 says that it runs jobs of tenant 'bob'"));
  CHECK_THAT(one.refusal("n1", "ana", one.authority.node("n1", "")), Contains("names no tenant"));
  CHECK_THAT(one.refusal("n2", "", one.authority.node("n2", "*")), Contains("set tenant in its agent.toml"));
  CHECK(one.refusal("n2", "*", one.authority.node("n2", "*")).empty());
}

TEST_CASE("an agent's token binds over a socket, too") {
  Cluster one(false, "ana");
  CHECK(one.refusal("n0", "*", nullptr).empty());
  one.list.add("bob", Role::kOperate, "bob");
  one.daemon->reload();
  CHECK_THAT(one.refusal("n1", "*", nullptr), Contains("its token is for those of tenant 'ana'"));
  CHECK(one.refusal("n1", "ana", nullptr).empty());
  CHECK_THAT(one.log.text(), !Contains("tt_"));
}

TEST_CASE("when a second tenant comes, nodes that do not show whose they are stay, and are given no further job") {
  Cluster one(false);
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0", Cluster::link(nullptr));
  agent.start();
  REQUIRE(coordinator::run_until(one.loop, [&] { return agent.welcomes == 1; }));
  one.list.add("bob", Role::kOperate, "bob");
  one.daemon->reload();
  CHECK_THAT(one.log.text(),
             Contains("refused (node): node n0: no further job is placed there: node n0 does not say whose"));
  one.daemon->reload();  // said once
  const std::string log = one.log.text();
  CHECK(log.find("no further job") == log.rfind("no further job"));
  one.list.tokens.remove("bob");
  one.list.write();
  one.daemon->reload();
  CHECK_THAT(one.log.text(), Contains("node n0 is given jobs again"));
  CHECK(agent.closes == 0);
}
