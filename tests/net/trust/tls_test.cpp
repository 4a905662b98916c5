// Mutual TLS over loopback: who gets in, who does not and what both sides are told, and new certificates while it runs.

#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "../loopback.hpp"
#include "../test_authority.hpp"
#include "net/http_client.hpp"
#include "net/link.hpp"
#include "net/server.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Fixture {
  TemporaryDirectory directory;
  TestAuthority authority{directory, "ca"};
  TestAuthority stranger{directory, "stranger"};
  std::shared_ptr<Credentials> own = authority.credentials(CertificateKind::kCoordinator, "c0");
  EventLoop loop;
  std::vector<Refusal> refusals;
  std::vector<std::optional<PeerIdentity>> peers;
  std::unique_ptr<Server> server;

  Fixture() { start({}); }

  void start(ServerOptions options) {
    options.tls = own;
    ServerHandlers handlers;
    handlers.http = [this](const HttpRequest& request) {
      peers.push_back(request.peer);
      return HttpResponse{200, "text/plain", request.body};
    };
    handlers.opened = [this](PeerId peer) { peers.push_back(server->identity(peer)); };
    handlers.message = [this](PeerId peer, std::string_view frame) {
      server->send(peer, "echo " + std::string(frame));
    };
    handlers.refused = [this](const Refusal& refusal) { refusals.push_back(refusal); };
    auto started = Server::start(loop, options, std::move(handlers));
    REQUIRE(started.ok());
    server = std::move(started).value();
  }

  Result<HttpReply> ask(const std::shared_ptr<Credentials>& tls, const std::string& body = "") {
    Result<HttpReply> reply = unavailable("not asked");
    while_loop_runs(loop, [&] { reply = http_request({"127.0.0.1", server->port(), tls}, "POST", "/", body, 10s); });
    return reply;
  }

  // What a link says when it does not get in.
  std::string link_end(const std::shared_ptr<Credentials>& tls) {
    LinkOptions options;
    options.port = server->port();
    options.tls = tls;
    std::string reason;
    Link link(loop, options, {{}, {}, [&](const std::string& why) { reason = why; }}, 1);
    link.start();
    REQUIRE(run_until(loop, [&] { return !reason.empty(); }));
    return reason;
  }
};

}  // namespace

TEST_CASE("a request and a link get in with certificates of the authority, and the server knows whose they are") {
  Fixture fixture;
  const std::string body(300'000, 'x');
  const auto reply = fixture.ask(fixture.authority.credentials(CertificateKind::kPerson, "ana"), body);
  REQUIRE(reply.ok());
  CHECK(reply->body == body);
  REQUIRE(fixture.peers.size() == 1);
  CHECK(fixture.peers[0]->name == "ana");
  CHECK(fixture.peers[0]->kind == CertificateKind::kPerson);

  LinkOptions options;
  options.port = fixture.server->port();
  options.tls = fixture.authority.credentials(CertificateKind::kNode, "n0");
  std::string received;
  Link link(fixture.loop, options, {{}, [&](std::string_view frame) { received = frame; }, {}}, 1);
  link.start();
  REQUIRE(run_until(fixture.loop, [&] { return link.open(); }));
  CHECK(link.send(body));
  REQUIRE(run_until(fixture.loop, [&] { return !received.empty(); }));
  CHECK(received == "echo " + body);
  REQUIRE(fixture.peers.size() == 2);
  CHECK(fixture.peers[1]->name == "n0");
  CHECK(fixture.peers[1]->kind == CertificateKind::kNode);
  CHECK(fixture.refusals.empty());
}

TEST_CASE("a client without TLS is refused, and it is told of") {
  Fixture fixture;
  CHECK_FALSE(fixture.ask(nullptr).ok());
  REQUIRE(run_until(fixture.loop, [&] { return !fixture.refusals.empty(); }));
  CHECK(fixture.refusals[0].kind == Refusal::Kind::kTls);
  CHECK(contains(fixture.refusals[0].reason, "without TLS"));
  CHECK(contains(fixture.refusals[0].address, "127.0.0.1:"));
}

TEST_CASE("whoever only looks whether the port is served is no refusal; whoever breaks off a handshake is one") {
  Fixture fixture;
  { const auto probe = RawClient::tcp(fixture.server->port()); }
  CHECK(fixture.ask(fixture.authority.credentials(CertificateKind::kPerson, "ana")).ok());
  CHECK(fixture.refusals.empty());
  {
    const auto half = RawClient::tcp(fixture.server->port());
    REQUIRE(half.send(std::string_view("\x16\x03\x01\x02", 4)));
  }
  REQUIRE(run_until(fixture.loop, [&] { return !fixture.refusals.empty(); }));
  CHECK(fixture.refusals[0].kind == Refusal::Kind::kTls);
}

TEST_CASE("a client without a certificate is refused, and both sides say why") {
  Fixture fixture;
  const std::string command = "echo | openssl s_client -connect 127.0.0.1:" + std::to_string(fixture.server->port()) +
                              " -CAfile " + fixture.authority.certificate_file() + " >/dev/null 2>&1";
  while_loop_runs(fixture.loop, [&] { [[maybe_unused]] const int refused = std::system(command.c_str()); });
  REQUIRE(run_until(fixture.loop, [&] { return !fixture.refusals.empty(); }));
  CHECK(fixture.refusals[0].kind == Refusal::Kind::kTls);
  CHECK(contains(fixture.refusals[0].reason, "shows no certificate"));
  CHECK(fixture.peers.empty());
}

TEST_CASE("a certificate of another authority is refused, whoever shows it") {
  Fixture fixture;
  // It trusts the right authority, and shows what another has signed.
  const auto forged = fixture.stranger.credentials(CertificateKind::kNode, "n0", &fixture.authority);
  CHECK(contains(fixture.link_end(forged), "refuses this side's certificate"));
  REQUIRE_FALSE(fixture.refusals.empty());
  CHECK(fixture.refusals[0].kind == Refusal::Kind::kTls);
  CHECK(contains(fixture.refusals[0].reason, "certificate"));
  // It trusts the other authority: then the server is the impostor.
  CHECK(contains(fixture.link_end(fixture.stranger.credentials(CertificateKind::kNode, "n0")), "certificate"));
  CHECK(fixture.peers.empty());
}

TEST_CASE("an expired certificate is refused by the server, and not even loaded by its owner") {
  Fixture fixture;
  const Nanoseconds now = SystemClock().wall();
  const CredentialFiles files = fixture.authority.write(CertificateKind::kPerson, "late", now - 24h - 1min, 24h);
  const auto refused = Credentials::load(files, now);
  REQUIRE_FALSE(refused.ok());
  CHECK(contains(refused.error().message, "expired on"));
  CHECK(contains(refused.error().message, "'trimtab cert issue person late --dir CA_DIRECTORY --out late'"));
  // A clock that stands still lets the owner believe in it.
  const auto believed = Credentials::load(files, now - 5min);
  REQUIRE(believed.ok());
  CHECK_FALSE(fixture.ask(*believed).ok());
  REQUIRE(run_until(fixture.loop, [&] { return !fixture.refusals.empty(); }));
  CHECK(contains(fixture.refusals[0].reason, "expired"));
}

TEST_CASE("a node that has hosts can serve, but not stand for the coordinator") {
  Fixture fixture;
  fixture.server.reset();
  fixture.own = fixture.authority.credentials(CertificateKind::kNode, "n0", nullptr, {"127.0.0.1", "localhost"});
  fixture.start({});
  CHECK(contains(fixture.link_end(fixture.authority.credentials(CertificateKind::kNode, "n1")), "not a coordinator's"));
  CHECK_FALSE(fixture.ask(fixture.authority.credentials(CertificateKind::kPerson, "ana")).ok());
  CHECK(fixture.peers.empty());
}

TEST_CASE("a node cannot stand for the coordinator") {
  Fixture fixture;
  fixture.server.reset();
  fixture.own = fixture.authority.credentials(CertificateKind::kNode, "n0");
  fixture.start({});
  CHECK(contains(fixture.link_end(fixture.authority.credentials(CertificateKind::kNode, "n1")), "certificate"));
  CHECK(fixture.peers.empty());
}

TEST_CASE("a coordinator's certificate is good for its own hosts alone") {
  Fixture fixture;
  fixture.server.reset();
  fixture.own = fixture.authority.credentials(CertificateKind::kCoordinator, "c0", nullptr, {"elsewhere.example"});
  fixture.start({});
  const auto reply = fixture.ask(fixture.authority.credentials(CertificateKind::kPerson, "ana"));
  REQUIRE_FALSE(reply.ok());
  CHECK(contains(reply.error().message, "mismatch"));
}

TEST_CASE("a client that trickles its handshake is closed after the time for it") {
  Fixture fixture;
  fixture.server.reset();
  ServerOptions options;
  options.idle_timeout = 50ms;
  fixture.start(options);
  while_loop_runs(fixture.loop, [&] {
    const auto client = RawClient::tcp(fixture.server->port());
    client.send("\x16\x03\x01");
    CHECK(client.read_all().empty());
  });
  REQUIRE(run_until(fixture.loop, [&] { return !fixture.refusals.empty(); }));
  CHECK(contains(fixture.refusals[0].reason, "too long"));
}

TEST_CASE("new certificates are used from the next connection on, and bad ones never") {
  Fixture fixture;
  const SystemClock clock;
  const auto person = fixture.authority.credentials(CertificateKind::kPerson, "ana");
  CHECK_FALSE(*fixture.own->reload(clock.wall()));
  // The files now belong to another authority's coordinator.
  const auto move = [](const std::string& from, const std::string& to) { std::filesystem::rename(from, to); };
  const CredentialFiles files = fixture.authority.files("c0");
  const CredentialFiles other =
      fixture.stranger.write(CertificateKind::kCoordinator, "c0", clock.wall(), 24h, {"127.0.0.1"});
  move(other.certificate, files.certificate);
  const auto mismatched = fixture.own->reload(clock.wall());
  REQUIRE_FALSE(mismatched.ok());
  CHECK(contains(mismatched.error().message, "is not the key"));
  CHECK(fixture.ask(person).ok());                  // with the old ones
  CHECK_FALSE(*fixture.own->reload(clock.wall()));  // said once
  move(other.key, files.key);
  move(other.authority, files.authority);
  CHECK(*fixture.own->reload(clock.wall()));
  CHECK_FALSE(fixture.ask(person).ok());
  CHECK(fixture.ask(fixture.stranger.credentials(CertificateKind::kPerson, "eve", nullptr, {}, files.authority)).ok());
}

TEST_CASE("when another authority is trusted, links that are open are judged again by both sides") {
  Fixture fixture;
  LinkOptions options;
  options.port = fixture.server->port();
  options.tls = fixture.authority.credentials(CertificateKind::kNode, "n0");
  std::vector<std::string> ends;
  Link link(fixture.loop, options, {{}, {}, [&](const std::string& why) { ends.push_back(why); }}, 1);
  link.start();
  REQUIRE(run_until(fixture.loop, [&] { return link.open() && fixture.server->peers().size() == 1; }));
  const PeerId peer = fixture.server->peers().front();
  const Nanoseconds now = SystemClock().wall();
  // Trusted by nobody yet, and both read the same files again.
  REQUIRE(*fixture.own->reload(now, true));
  REQUIRE(*options.tls->reload(now, true));
  CHECK(fixture.server->objection(peer).empty());
  link.judge_again();
  CHECK(ends.empty());

  const TestAuthority next(fixture.directory, "next");
  const auto take_place = [&](CertificateKind kind, const std::string& name) {
    const CredentialFiles fresh = next.write(kind, name, now, 24h, {"127.0.0.1"});
    const CredentialFiles former = fixture.authority.files(name);
    for (const auto& [from, to] :
         {std::pair(fresh.authority, former.authority), std::pair(fresh.certificate, former.certificate),
          std::pair(fresh.key, former.key)}) {
      std::filesystem::remove(to);
      std::filesystem::copy_file(from, to);
    }
  };
  take_place(CertificateKind::kCoordinator, "c0");
  REQUIRE(*fixture.own->reload(now));
  const std::string objection = fixture.server->objection(peer);
  CHECK(contains(objection, "its certificate ('n0') is refused: it is not of the authority that is trusted here"));
  CHECK(fixture.server->objection(peer).empty());  // said once
  take_place(CertificateKind::kNode, "n0");
  REQUIRE(*options.tls->reload(now));
  link.judge_again();
  REQUIRE(ends.size() == 1);
  CHECK(contains(ends.front(), "its certificate ('c0') is refused: it is not of the authority that is trusted here"));
  CHECK(run_until(fixture.loop, [&] { return link.open(); }));
}

TEST_CASE("a link ends when the certificate of either side expires, and both say which") {
  Fixture fixture;
  const Nanoseconds now = SystemClock().wall();
  const auto expiring = [&](CertificateKind kind, const std::string& name) {
    const auto files = fixture.authority.write(kind, name, now - 24h + 2s, 24h, {"127.0.0.1"});
    auto loaded = Credentials::load(files, now);
    REQUIRE(loaded.ok());
    return std::move(loaded).value();
  };
  const auto open_link = [&](const std::shared_ptr<Credentials>& tls, std::vector<std::string>& ends) {
    LinkOptions options;
    options.port = fixture.server->port();
    options.tls = tls;
    auto link = std::make_unique<Link>(fixture.loop, options,
                                       LinkHandlers{{}, {}, [&](const std::string& why) { ends.push_back(why); }}, 1);
    link->start();
    REQUIRE(run_until(fixture.loop, [&] { return link->open(); }));
    return link;
  };
  std::vector<std::string> ends;
  std::vector<std::string> lasting_ends;
  SECTION("the client's") {
    const auto lasting = open_link(fixture.authority.credentials(CertificateKind::kNode, "n1"), lasting_ends);
    const auto link = open_link(expiring(CertificateKind::kNode, "n0"), ends);
    REQUIRE(run_until(fixture.loop, [&] { return ends.size() >= 2; }));
    REQUIRE_FALSE(fixture.refusals.empty());
    CHECK(fixture.refusals[0].kind == Refusal::Kind::kTls);
    CHECK(fixture.refusals[0].reason == "its certificate ('n0') has expired");
    CHECK(contains(ends[1], "expired"));  // nor is it let in again
    CHECK(lasting->open());
  }
  SECTION("the server's") {
    fixture.server.reset();
    fixture.own = expiring(CertificateKind::kCoordinator, "c0");
    fixture.start({});
    const auto link = open_link(fixture.authority.credentials(CertificateKind::kNode, "n1"), ends);
    REQUIRE(run_until(fixture.loop, [&] { return ends.size() >= 2; }));
    CHECK(contains(ends[0], "its certificate has expired"));
    CHECK(contains(ends[1], "expired"));
  }
}

TEST_CASE("a server beyond loopback needs TLS") {
  EventLoop loop;
  ServerOptions options;
  options.address = "0.0.0.0";
  const auto refused = Server::start(loop, options, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(contains(refused.error().message, "needs TLS"));
  TemporaryDirectory directory;
  TestAuthority authority(directory, "ca");
  options.tls = authority.credentials(CertificateKind::kCoordinator, "c0");
  CHECK(Server::start(loop, options, {}).ok());
}

TEST_CASE("credentials that cannot be used are refused with what to do") {
  TemporaryDirectory directory;
  TestAuthority authority(directory, "ca");
  const Nanoseconds now = SystemClock().wall();
  CredentialFiles files = authority.write(CertificateKind::kNode, "n0", now, 24h);
  const auto message = [&](const CredentialFiles& given) {
    const auto loaded = Credentials::load(given, now);
    return loaded.ok() ? "it was loaded" : loaded.error().message;
  };
  CHECK(contains(message({files.authority, files.certificate, ""}), "three files"));
  CHECK(contains(message({files.authority, files.certificate, directory / "none"}), "No such file"));
  CHECK(contains(message({files.authority, files.key, files.key}), "PEM certificate"));
  CHECK(contains(message({files.authority, files.certificate, files.certificate}), "chmod 600"));
  std::filesystem::permissions(files.certificate, std::filesystem::perms::owner_read);
  CHECK(contains(message({files.authority, files.certificate, files.certificate}), "PEM key"));
  CHECK(contains(message({directory / "", files.certificate, files.key}), "must be a file"));
  std::filesystem::permissions(files.key, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  CHECK(contains(message(files), "chmod 600"));
}
