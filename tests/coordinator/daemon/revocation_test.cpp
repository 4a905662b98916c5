// Who is shut out while connected: agents and people, by token, by the deny list and by another authority, over real
// sockets.

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../../net/test_authority.hpp"
#include "../fake_agent.hpp"
#include "../kept_log.hpp"
#include "../token_list.hpp"
#include "coordinator/daemon.hpp"
#include "net/http_client.hpp"
#include "schema/job.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;
using Catch::Contains;
using net::CertificateKind;
using net::Role;
using nlohmann::json;

namespace {

struct Cluster {
  TokenList list;
  net::TestAuthority authority{list.directory, "ca"};
  KeptLog log;
  SystemClock clock;
  net::EventLoop loop;
  std::shared_ptr<net::Credentials> chief;
  std::unique_ptr<Daemon> daemon;

  explicit Cluster(bool under_tls) {
    list.add("chief", Role::kOperate, net::kEveryTenant);
    list.tokens.remove("ana");  // so that there is one tenant
    list.write();
    Settings settings;
    settings.port = 0;
    settings.state_directory = list.directory / "state";
    settings.tokens = list.directory / "tokens";
    if (under_tls) {
      (void)authority.credentials(CertificateKind::kCoordinator, "c0");
      settings.tls = authority.files("c0");
      chief = authority.credentials(CertificateKind::kPerson, "chief");
    }
    daemon = Daemon::start(loop, clock, settings).value();
  }
  static net::LinkOptions link(std::shared_ptr<net::Credentials> tls) {
    net::LinkOptions options;
    options.tls = std::move(tls);
    options.token = [] { return std::string(kAgentToken); };
    return options;
  }
  std::unique_ptr<FakeAgent> agent(const std::string& node, std::shared_ptr<net::Credentials> tls = nullptr) {
    auto one = std::make_unique<FakeAgent>(loop, daemon->port(), node, "of " + node, link(std::move(tls)));
    one->start();
    REQUIRE(coordinator::run_until(loop, [&] { return one->welcomes == 1; }));
    return one;
  }
  net::HttpReply ask(const std::string& method, const std::string& target, const std::string& body = "") {
    Result<net::HttpReply> reply = unavailable("not asked");
    net::while_loop_runs(loop, [&] {
      reply = net::http_request({"127.0.0.1", daemon->port(), chief, "tt_chief"}, method, target, body,
                                std::chrono::seconds(10));
    });
    INFO((reply.ok() ? "" : reply.error().message));
    REQUIRE(reply.ok());
    return *reply;
  }
  std::string state_of(const std::string& node) {
    const json answer = json::parse(ask("GET", "/v1/nodes").body);
    for (const json& one : answer["nodes"]) {
      if (one["name"] == node) return one["state"];
    }
    return "unknown";
  }
  void deny(const std::string& lines) {
    std::ofstream(list.directory / "state/denied") << lines;
    daemon->reload();
  }
};

std::string submission(const std::string& name) {
  Job job;
  job.name = name;
  job.world_size = 1;
  job.steps = 10;
  job.working_directory = "/";
  job.describe = {"describe"};
  job.benchmark = {"benchmark"};
  job.train = {"train"};
  return json{{"job", json::parse(to_json(job))}, {"tune", true}}.dump();
}

// Told why, cut off, and lost to jobs; whatever it says then is not heard.
void check_shut_out(Cluster& one, FakeAgent& agent, const std::string& node, const std::string& why) {
  REQUIRE(coordinator::run_until(one.loop, [&] { return agent.closes > 0 && !agent.refusals.empty(); }));
  CHECK_THAT(agent.refusals.front(), Contains(why));
  CHECK(one.state_of(node) == "lost");
  CHECK_THAT(one.ask("GET", "/v1/audit").body, Contains("shut out node " + node));
  CHECK_THAT(one.log.text(), Contains("refused (revoked): node " + node));
}

}  // namespace

TEST_CASE("an agent whose token's line is gone is shut out at the reload, and gets no further job") {
  Cluster one(false);
  const auto agent = one.agent("n0");
  agent->send_batch(1, R"({"kind":"memory_bandwidth"})", 1);
  one.daemon->reload();
  CHECK(agent->closes == 0);
  one.list.tokens.remove("agents");
  one.list.write();
  one.daemon->reload();
  const std::size_t commands = agent->commands.size();
  // Before it knows: the next job is not its own any more, and no batch is taken.
  agent->send_batch(2, R"({"kind":"memory_bandwidth"})", 2);
  CHECK(one.ask("POST", "/v1/jobs", submission("next")).status == 201);
  check_shut_out(one, *agent, "n0", "an agent needs a known token here");
  CHECK(agent->commands.size() == commands);
  CHECK_FALSE(agent->acknowledged.contains(2));
  // It tries again and is not let in.
  CHECK(coordinator::run_until(one.loop, [&] { return agent->closes > 1; }));
  CHECK(agent->welcomes == 1);
}

TEST_CASE("whom the deny list names by a token's name is shut out, agent and person") {
  Cluster one(false);
  const auto agent = one.agent("n0");
  one.deny("name agents\n");
  check_shut_out(one, *agent, "n0", "the token of agents is revoked: name agents is on the deny list");
  CHECK(one.ask("GET", "/v1/jobs").status == 200);
  one.deny("name agents\nname chief\n");
  const auto refused = one.ask("GET", "/v1/jobs");
  CHECK(refused.status == 403);
  CHECK_THAT(refused.body, Contains("the token of chief is revoked"));
}

TEST_CASE("under TLS a node is shut out by its name, by its certificate's serial number, and others stay") {
  Cluster one(true);
  const auto n0 = one.agent("n0", one.authority.node("n0", "*"));
  const auto n1 = one.agent("n1", one.authority.node("n1", "*"));
  const auto n2 = one.agent("n2", one.authority.node("n2", "*"));
  one.deny("name n0\n");
  check_shut_out(one, *n0, "n0", "the certificate 'n0' is revoked: name n0");
  std::ifstream file(one.authority.files("n1").certificate);
  const std::string pem((std::istreambuf_iterator<char>(file)), {});
  const std::string serial = net::describe_certificate(pem, "n1")->serial;
  one.deny("name n0\nserial " + serial + "\n");
  check_shut_out(one, *n1, "n1", "the certificate 'n1' is revoked: serial ");
  CHECK(n2->closes == 0);
  CHECK(one.state_of("n2") == "connected");
  // A new certificate of the same name is another one.
  n1->stop();
  const auto again = one.agent("n1", one.authority.node("n1", "*"));
  CHECK(one.state_of("n1") == "connected");
  // A list that cannot be read lets nobody in again.
  one.deny("name n0\nno line\n");
  CHECK_THAT(one.log.text(), Contains("the names on the deny list stay as they were"));
  CHECK(n0->welcomes == 1);
}

TEST_CASE("when the authority is replaced, agents with certificates of the former one are shut out") {
  Cluster one(true);
  const auto former = one.agent("n0", one.authority.node("n0", "*"));
  const net::TestAuthority next(one.list.directory, "next");
  const auto now = one.clock.wall();
  const auto fresh = next.write(CertificateKind::kCoordinator, "c0", now, std::chrono::hours(24), {"127.0.0.1"});
  const auto files = one.authority.files("c0");
  for (const auto& [from, to] : {std::pair(fresh.authority, files.authority),
                                 std::pair(fresh.certificate, files.certificate), std::pair(fresh.key, files.key)}) {
    std::filesystem::remove(to);
    std::filesystem::copy_file(from, to);
  }
  one.daemon->reload();
  one.chief = next.credentials(CertificateKind::kPerson, "chief");
  check_shut_out(one, *former, "n0", "its certificate ('n0') is refused: it is not of the authority");
  former->stop();
  const auto renewed = one.agent("n0", next.node("n0", "*"));
  CHECK(one.state_of("n0") == "connected");
}

TEST_CASE("a deny list that is named and not there, or that everybody may write, keeps a coordinator from starting") {
  const net::TemporaryDirectory directory;
  const SystemClock clock;
  net::EventLoop loop;
  Settings settings;
  settings.port = 0;
  settings.state_directory = directory / "state";
  settings.deny_list = directory / "denied";
  const auto refusal = [&] {
    const auto started = Daemon::start(loop, clock, settings);
    return started.ok() ? std::string() : started.error().message;
  };
  CHECK_THAT(refusal(), Contains("which is not there") && Contains("touch"));
  std::ofstream(settings.deny_list) << "name n0\n";
  CHECK(refusal().empty());
  std::filesystem::permissions(settings.deny_list, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  CHECK_THAT(refusal(), Contains("everybody may write it"));
}
