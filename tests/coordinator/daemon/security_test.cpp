// Whoever may not, over real sockets: each forbidden thing is tried, refused and logged, and no secret is in the log.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "../../net/test_authority.hpp"
#include "../fake_agent.hpp"
#include "../kept_log.hpp"
#include "api/access.hpp"
#include "base/clock.hpp"
#include "coordinator/daemon.hpp"
#include "net/http_client.hpp"
#include "net/tokens.hpp"
#include "schema/job.hpp"

using namespace trimtab;
using coordinator::Daemon;
using coordinator::FakeAgent;
using coordinator::KeptLog;
using net::CertificateKind;
using net::Role;
using nlohmann::json;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Fixture {
  net::TemporaryDirectory directory;
  KeptLog log;
  SystemClock clock;
  net::EventLoop loop;
  net::Tokens tokens;
  std::unique_ptr<Daemon> daemon;

  explicit Fixture(const net::CredentialFiles& tls = {}, std::uint32_t max_connections = 4096,
                   std::uint32_t max_request_rate = 1000, Nanoseconds request_time = std::chrono::seconds(60)) {
    add("ana", Role::kOperate, "research");
    add("bob", Role::kOperate, "bob");
    add("wall", Role::kView, net::kEveryTenant);
    add("chief", Role::kOperate, net::kEveryTenant);
    add("agents", Role::kAgent, net::kEveryTenant);
    coordinator::Settings settings;
    settings.port = 0;
    settings.state_directory = directory / "state";
    settings.tokens = write_tokens();
    settings.tls = tls;
    settings.max_connections = max_connections;
    settings.max_request_rate = max_request_rate;
    settings.request_time = request_time;
    auto started = Daemon::start(loop, clock, settings);
    INFO((started.ok() ? "" : started.error().message));
    REQUIRE(started.ok());
    daemon = std::move(started).value();
  }

  static std::string token(const std::string& name) { return "tt_secret_of_" + name; }
  void add(const std::string& name, Role role, const std::string& tenant) {
    REQUIRE(tokens.add({name, role, tenant}, token(name)).ok());
  }
  [[nodiscard]] std::string write_tokens() const {
    std::ofstream(directory / "tokens") << tokens.text();
    return directory / "tokens";
  }

  Result<net::HttpReply> ask(const std::string& token_shown, const std::string& method, const std::string& target,
                             const std::string& body = "", std::shared_ptr<net::Credentials> tls = nullptr) {
    Result<net::HttpReply> reply = unavailable("not asked");
    const net::HttpEndpoint endpoint{"127.0.0.1", daemon->port(), std::move(tls), token_shown};
    net::while_loop_runs(loop,
                         [&] { reply = net::http_request(endpoint, method, target, body, std::chrono::seconds(10)); });
    return reply;
  }
  int status(const std::string& name, const std::string& method, const std::string& target,
             const std::string& body = "") {
    const auto reply = ask(name.empty() ? "" : token(name), method, target, body);
    return reply.ok() ? reply->status : 0;
  }
};

std::string submission(const std::string& name) {
  Job job;
  job.name = "placeholder";
  job.world_size = 2;
  job.steps = 10;
  job.working_directory = "/";
  job.describe = {"describe"};
  job.benchmark = {"benchmark"};
  job.train = {"train"};
  json document = json::parse(to_json(job));
  document["name"] = name;
  return json{{"job", document}, {"tune", true}}.dump();
}

net::LinkOptions link_with(const std::string& token, std::shared_ptr<net::Credentials> tls = nullptr) {
  net::LinkOptions options;
  options.token = [token] { return token; };
  options.tls = std::move(tls);
  return options;
}

}  // namespace

TEST_CASE("who asks too often is told when to come again, which is counted, and nobody else is kept waiting") {
  Fixture one({}, 4096, 1);
  std::string told;
  // How many are answered before one is not.
  const auto answered = [&](const std::string& token_shown, int status) {
    int count = 0;
    for (; count < 100; ++count) {
      const auto reply = one.ask(token_shown, "GET", "/v1/status");
      REQUIRE(reply.ok());
      told = reply->body;
      if (reply->status == 429) break;
      CHECK(reply->status == status);
    }
    return count;
  };
  const int of_ana = answered(Fixture::token("ana"), 200);
  CHECK(of_ana >= 5);
  CHECK(of_ana < 100);
  CHECK(told.find("person ana asks more often than max_request_rate") != std::string::npos);
  CHECK(one.status("bob", "GET", "/v1/status") == 200);
  // Without a known token it is the address that asks.
  const int of_nobody = answered("tt_made_up", 401);
  CHECK(of_nobody >= 5);
  CHECK(of_nobody < 100);
  CHECK(told.find("address 127.0.0.1") != std::string::npos);
  const auto page = one.ask(Fixture::token("chief"), "GET", "/metrics");
  CHECK(page->body.find("trimtab_refused_total{reason=\"rate\"} 2\n") != std::string::npos);
}

TEST_CASE("without a token only the empty page is shown, and a made-up one is worth nothing") {
  Fixture one;
  CHECK(one.status("", "GET", "/") == 200);
  CHECK(one.status("", "POST", "/v1/jobs", submission("job")) == 401);
  for (const char* target : {"/v1/status", "/v1/jobs", "/v1/nodes", "/v1/costs", "/v1/audit", "/metrics", "/nowhere"}) {
    INFO(target);
    CHECK(one.status("", "GET", target) == 401);
    CHECK(one.status("nobody", "GET", target) == 401);
  }
  CHECK(one.status("wall", "GET", "/v1/jobs") == 200);
  CHECK(contains(one.log.text(), "refused (unauthenticated): 127.0.0.1:"));
  CHECK(contains(one.log.text(), "POST /v1/jobs: a token is needed"));
  CHECK_FALSE(contains(one.log.text(), "tt_secret"));
}

TEST_CASE("a viewer starts and changes nothing") {
  Fixture one;
  CHECK(one.status("ana", "POST", "/v1/jobs", submission("job")) == 201);
  for (const char* order : {"stop", "approve", "freeze", "unfreeze", "own-plan", "trace"}) {
    INFO(order);
    CHECK(one.status("wall", "POST", std::string("/v1/jobs/job/") + order) == 403);
  }
  CHECK(one.status("wall", "POST", "/v1/jobs", submission("mine")) == 403);
  CHECK(one.status("wall", "POST", "/v1/profile", submission("mine")) == 403);
  CHECK(one.status("wall", "GET", "/v1/traces/1") == 404);
  CHECK(one.status("wall", "GET", "/v1/traces/1/chunk?number=0") == 403);
  CHECK(one.status("ana", "GET", "/v1/traces/1/chunk?number=0") == 404);
  CHECK(one.status("agents", "GET", "/v1/jobs") == 403);
  const auto jobs = one.ask(Fixture::token("wall"), "GET", "/v1/jobs");
  REQUIRE(jobs.ok());
  CHECK(json::parse(jobs->body)["jobs"].size() == 1);
  CHECK(contains(one.log.text(), "this needs the role operate, but wall has the role view"));
  CHECK_FALSE(contains(one.log.text(), "tt_secret"));
}

TEST_CASE("one tenant neither sees nor touches another's job, nor takes its name") {
  Fixture one;
  REQUIRE(one.status("ana", "POST", "/v1/jobs", submission("hers")) == 201);
  for (const char* part : {"", "/events", "/trials", "/report", "/live"}) {
    INFO(part);
    CHECK(one.status("bob", "GET", std::string("/v1/jobs/hers") + part) == 404);
  }
  CHECK(one.status("bob", "POST", "/v1/jobs/hers/stop") == 404);
  CHECK(one.status("bob", "GET", "/v1/traces/1") == 404);
  for (const char* target : {"/v1/jobs", "/v1/status"}) {
    const auto reply = one.ask(Fixture::token("bob"), "GET", target);
    REQUIRE(reply.ok());
    CHECK(reply->status == 200);
    CHECK_FALSE(contains(reply->body, "hers"));
  }
  for (const char* target : {"/metrics", "/v1/costs", "/v1/audit", "/v1/audit?job=hers"}) {
    INFO(target);
    CHECK(one.status("bob", "GET", target) == 403);
  }
  CHECK(one.status("bob", "POST", "/v1/jobs", submission("hers")) == 409);
  CHECK(one.status("bob", "POST", "/v1/jobs", submission("his")) == 201);
  CHECK(one.status("ana", "GET", "/v1/jobs/hers") == 200);
  CHECK(one.status("ana", "GET", "/v1/audit?job=hers") == 200);
  const auto all = one.ask(Fixture::token("chief"), "GET", "/v1/jobs");
  REQUIRE(all.ok());
  CHECK(json::parse(all->body)["jobs"].size() == 2);
  // Who wanted her job's name is nothing to her.
  const auto hers = one.ask(Fixture::token("ana"), "GET", "/v1/audit?job=hers");
  REQUIRE(hers.ok());
  CHECK(contains(hers->body, "\"who\":\"ana\""));
  CHECK_FALSE(contains(hers->body, "bob"));
  const auto audit = one.ask(Fixture::token("chief"), "GET", "/v1/audit?job=hers");
  REQUIRE(audit.ok());
  // Who it was is what the token says, not what the caller says.
  CHECK(contains(audit->body, "\"who\":\"ana\""));
}

TEST_CASE("a job that names a path is refused before anything is done with it") {
  Fixture one;
  for (const char* name : {"../../etc/cron.d/x", "..", "a/b", "/etc", "a\\u0000b"}) {
    INFO(name);
    CHECK(one.status("ana", "POST", "/v1/jobs", submission(name)) == 400);
  }
  CHECK(contains(one.log.text(), "refused (job): 127.0.0.1:"));
  CHECK(contains(one.log.text(), "POST /v1/jobs of ana: "));
  CHECK(contains(one.log.text(), "found \"../../etc/cron.d/x\""));
  CHECK(contains(one.ask(Fixture::token("chief"), "GET", "/metrics")->body, "trimtab_refused_total{reason=\"job\"} 5"));
  CHECK(one.status("ana", "GET", "/v1/jobs/..%2f..%2fcoordinator.db") == 404);
  CHECK(one.status("ana", "GET", "/../coordinator.db") == 404);
}

TEST_CASE("a large body is not even read from who may not send one") {
  Fixture one;
  const std::string body(4'000'000, 'x');
  CHECK(one.status("", "POST", "/v1/jobs", body) == 401);
  CHECK(one.status("wall", "POST", "/v1/jobs", body) == 403);
  CHECK(one.status("ana", "POST", "/v1/jobs", body) == 400);
  CHECK(one.status("ana", "POST", "/v1/jobs", std::string(9'000'000, 'x')) == 413);
  CHECK(contains(one.log.text(), "refused (too_large)"));
  const auto metrics = one.ask(Fixture::token("chief"), "GET", "/metrics");
  REQUIRE(metrics.ok());
  CHECK(contains(metrics->body, "trimtab_refused_total{reason=\"too_large\"} 1"));
  CHECK(contains(metrics->body, "trimtab_refused_total{reason=\"unauthenticated\"} 1"));
}

TEST_CASE("an agent without TLS needs an agent's token") {
  Fixture one;
  FakeAgent stranger(one.loop, one.daemon->port(), "n0", "i0", link_with("tt_guess"));
  FakeAgent person(one.loop, one.daemon->port(), "n0", "i0", link_with(Fixture::token("chief")));
  stranger.start();
  person.start();
  REQUIRE(coordinator::run_until(one.loop, [&] { return stranger.closes > 0 && person.closes > 0; }));
  CHECK(stranger.welcomes + person.welcomes == 0);
  CHECK(contains(one.log.text(), "an agent needs a token of the role agent, but chief has the role operate"));
  CHECK_FALSE(contains(one.log.text(), "tt_"));
  FakeAgent agent(one.loop, one.daemon->port(), "n1", "i1", link_with(Fixture::token("agents")));
  agent.tenant = net::kEveryTenant;
  agent.start();
  REQUIRE(coordinator::run_until(one.loop, [&] { return agent.welcomes == 1; }));
}

TEST_CASE("silent connections up to the limit keep neither a person nor an agent out") {
  constexpr std::uint32_t kMost = 8;
  Fixture one({}, kMost);
  std::vector<net::RawClient> silent;
  net::while_loop_runs(one.loop, [&] {
    for (std::uint32_t i = 0; i < kMost; ++i) silent.push_back(net::RawClient::tcp(one.daemon->port()));
  });
  CHECK(one.status("wall", "GET", "/v1/jobs") == 200);
  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0", link_with(Fixture::token("agents")));
  agent.tenant = net::kEveryTenant;
  agent.start();
  REQUIRE(coordinator::run_until(one.loop, [&] { return agent.welcomes == 1; }));
  // Not even with WebSockets that never say hello, of which an agent's token may open as many as it likes.
  std::vector<std::unique_ptr<FakeAgent>> mute;
  for (std::uint32_t i = 0; i < kMost; ++i) {
    mute.push_back(
        std::make_unique<FakeAgent>(one.loop, one.daemon->port(), "m", "m", link_with(Fixture::token("agents"))));
    mute.back()->hello_on_open = false;
    mute.back()->start();
  }
  CHECK(one.status("wall", "GET", "/v1/jobs") == 200);
  CHECK(agent.closes == 0);
  CHECK(contains(one.log.text(), "refused (full)"));
}

TEST_CASE("a token that is removed is worth nothing after the file is read again") {
  Fixture one;
  CHECK(one.status("ana", "GET", "/v1/jobs") == 200);
  one.tokens.remove("ana");
  (void)one.write_tokens();
  one.daemon->reload();
  CHECK(one.status("ana", "GET", "/v1/jobs") == 401);
  CHECK(one.status("wall", "GET", "/v1/jobs") == 200);
  std::ofstream(one.directory / "tokens") << "broken";
  one.daemon->reload();
  CHECK(one.status("wall", "GET", "/v1/jobs") == 200);
  CHECK(contains(one.log.text(), "the tokens stay as they were"));
}

TEST_CASE("under TLS a node is who its certificate says, and a person needs certificate and token") {
  net::TemporaryDirectory directory;
  const net::TestAuthority authority(directory, "ca");
  (void)authority.credentials(CertificateKind::kCoordinator, "c0");
  Fixture one(authority.files("c0"));
  const auto node = authority.node("n0", "research");
  const auto ana = authority.credentials(CertificateKind::kPerson, "ana");

  FakeAgent agent(one.loop, one.daemon->port(), "n0", "i0", link_with("", node));
  agent.start();
  REQUIRE(coordinator::run_until(one.loop, [&] { return agent.welcomes == 1; }));
  FakeAgent impostor(one.loop, one.daemon->port(), "n1", "i1", link_with("", node));
  impostor.start();
  REQUIRE(coordinator::run_until(one.loop, [&] { return !impostor.refusals.empty(); }));
  CHECK(contains(impostor.refusals[0], "says that it is node n1, but its certificate is a node's ('n0')"));
  impostor.stop();
  FakeAgent person(one.loop, one.daemon->port(), "n2", "i2", link_with(Fixture::token("agents"), ana));
  person.start();
  REQUIRE(coordinator::run_until(one.loop, [&] { return person.closes > 0; }));
  CHECK(contains(one.log.text(), "an agent needs a node's certificate, but this is a person's ('ana')"));
  person.stop();

  const auto asked = [&](const std::string& name, const std::shared_ptr<net::Credentials>& tls) {
    const auto reply = one.ask(name.empty() ? "" : Fixture::token(name), "GET", "/v1/jobs", "", tls);
    return reply.ok() ? reply->status : 0;
  };
  CHECK(asked("ana", ana) == 200);
  CHECK(asked("", ana) == 401);
  CHECK(asked("chief", ana) == 403);  // somebody else's token
  CHECK(asked("ana", node) == 403);   // a node is no person
  CHECK(asked("ana", nullptr) == 0);
  CHECK(contains(one.log.text(), "refused (tls)"));
}

TEST_CASE("a certificate of another authority and one that has expired are refused, and the log says which it was") {
  net::TemporaryDirectory directory;
  const net::TestAuthority authority(directory, "ca");
  const net::TestAuthority stranger(directory, "stranger");
  (void)authority.credentials(CertificateKind::kCoordinator, "c0");
  Fixture one(authority.files("c0"));
  const auto log_after = [&](const std::shared_ptr<net::Credentials>& tls) {
    const std::size_t before = one.log.text().size();
    CHECK_FALSE(one.ask(Fixture::token("ana"), "GET", "/v1/jobs", "", tls).ok());
    CHECK(coordinator::run_until(one.loop, [&] { return one.log.text().size() > before; }));
    return one.log.text().substr(before);
  };
  const std::string forged = log_after(stranger.credentials(CertificateKind::kPerson, "ana", &authority));
  CHECK(contains(forged, "refused (tls): 127.0.0.1:"));
  CHECK(contains(forged, "certificate"));
  INFO(forged);
  CHECK(contains(forged, "authority"));
  const Nanoseconds now = SystemClock().wall();
  const auto day = std::chrono::hours(24);
  const auto late = authority.write(CertificateKind::kPerson, "late", now - day - std::chrono::minutes(1), day);
  // Its owner's clock stands still.
  const std::string expired = log_after(net::Credentials::load(late, now - std::chrono::minutes(5)).value());
  CHECK(contains(expired, "refused (tls): 127.0.0.1:"));
  CHECK(contains(expired, "expired"));
  const auto page =
      one.ask(Fixture::token("chief"), "GET", "/metrics", "", authority.credentials(CertificateKind::kPerson, "chief"));
  REQUIRE(page.ok());
  CHECK(contains(page->body, "trimtab_refused_total{reason=\"tls\"} 2\n"));
}

TEST_CASE("metrics tell when the coordinator's certificate ends, of a new one without a restart, and the log warns") {
  net::TemporaryDirectory directory;
  const net::TestAuthority authority(directory, "ca");
  const Nanoseconds now = std::chrono::floor<std::chrono::seconds>(SystemClock().wall());
  const auto issue = [&](int days) {
    return authority.write(CertificateKind::kCoordinator, "c0", now, std::chrono::hours(24 * days), {"127.0.0.1"});
  };
  Fixture one(issue(10));
  const std::string warning = "the certificate 'c0' ends on ";
  CHECK(contains(one.log.text(), warning));
  const auto chief = authority.credentials(CertificateKind::kPerson, "chief");
  const auto shows = [&](const std::string& certificate, Nanoseconds end) {
    const auto page = one.ask(Fixture::token("chief"), "GET", "/metrics", "", chief);
    REQUIRE(page.ok());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end).count();
    return contains(page->body,
                    "\ntrimtab_coordinator_" + certificate + "_expires_seconds " + std::to_string(seconds) + "\n");
  };
  CHECK(shows("certificate", now + std::chrono::hours(24 * 10)));
  CHECK(shows("authority", net::describe_certificate(authority.certificate().certificate, "")->owner.expires));
  (void)issue(100);
  const std::size_t before = one.log.text().size();
  one.daemon->reload();
  CHECK(shows("certificate", now + std::chrono::hours(24 * 100)));
  CHECK_FALSE(contains(one.log.text().substr(before), warning));
}

TEST_CASE("metrics of a coordinator without TLS tell of no certificate") {
  Fixture one;
  const auto page = one.ask(Fixture::token("chief"), "GET", "/metrics");
  REQUIRE(page.ok());
  CHECK(page->status == 200);
  CHECK_FALSE(contains(page->body, "_expires_seconds"));
}

TEST_CASE("a request that trickles is closed in time, in its header and in its body, and so is a handshake") {
  net::TemporaryDirectory directory;
  const net::TestAuthority authority(directory, "ca");
  (void)authority.credentials(CertificateKind::kCoordinator, "c0");
  const auto trickled = [](Fixture& one, const std::string& begin) {
    const auto client = net::RawClient::tcp(one.daemon->port());
    client.send(begin);
    int sent = 0;
    const auto trickle = one.loop.every(std::chrono::milliseconds(5), [&] { sent += client.send("x") ? 1 : 0; });
    CHECK(coordinator::run_until(one.loop, [&] { return contains(one.log.text(), "refused ("); }));
    CHECK(sent > 1);
    return one.log.text();
  };
  const std::string authorized = "Host: localhost\r\nAuthorization: Bearer " + Fixture::token("ana") + "\r\n";
  for (const std::string& begin : {"GET /v1/jobs HTTP/1.1\r\n" + authorized + "X-Slow: ",
                                   "POST /v1/jobs HTTP/1.1\r\n" + authorized + "Content-Length: 100000\r\n\r\n"}) {
    Fixture one({}, 4096, 1000, std::chrono::milliseconds(100));
    const std::string text = trickled(one, begin);
    CHECK(contains(text, "refused (slow): 127.0.0.1:"));
    CHECK(contains(text, "its request was not there in time"));
    CHECK_FALSE(contains(text, "tt_secret"));
  }
  Fixture one(authority.files("c0"), 4096, 1000, std::chrono::milliseconds(100));
  const std::string text = trickled(one, std::string("\x16\x03\x01\x40\x00", 5));
  CHECK(contains(text, "refused (tls): 127.0.0.1:"));
  CHECK(contains(text, "too long"));
}

TEST_CASE("the daemon does not start with what would leave it open") {
  net::TemporaryDirectory directory;
  const net::TestAuthority authority(directory, "ca");
  (void)authority.credentials(CertificateKind::kNode, "n0");
  (void)authority.credentials(CertificateKind::kCoordinator, "c0");
  const SystemClock clock;
  net::EventLoop loop;
  coordinator::Settings settings;
  settings.port = 0;
  settings.state_directory = directory / "state";
  const auto refusal = [&] {
    const auto started = Daemon::start(loop, clock, settings);
    return started.ok() ? std::string("it was started") : started.error().message;
  };
  settings.address = "0.0.0.0";
  CHECK(contains(refusal(), "needs TLS"));
  settings.tls = authority.files("c0");
  CHECK(contains(refusal(), "needs a file of tokens"));
  settings.tokens = directory / "none";
  CHECK(contains(refusal(), "No such file"));
  std::ofstream(settings.tokens) << "";
  CHECK(refusal() == "it was started");
  settings.tls = authority.files("n0");
  CHECK(contains(refusal(), "is not a coordinator's certificate"));
  settings.tls.key.clear();
  CHECK(contains(refusal(), "not all three"));
}

TEST_CASE("a flood of refusals fills no log, and is counted") {
  KeptLog log;
  ManualClock clock;
  clock.advance(std::chrono::minutes(1));
  coordinator::RefusalLog refusals(clock);
  for (int i = 0; i < 1000; ++i) refusals.refused("tls", "10.0.0.1:1", "line\nbroken\x1b[2J");
  clock.advance(LogPace::kPeriod);
  refusals.refused("slow", "10.0.0.1:1", "late");
  const std::string text = log.text();
  CHECK(std::count(text.begin(), text.end(), '\n') == LogPace::kLines + 2);
  CHECK(contains(text, "990 more were refused"));
  CHECK_FALSE(contains(text, "\x1b"));
  CHECK(refusals.counts().at("tls") == 1000);
}
