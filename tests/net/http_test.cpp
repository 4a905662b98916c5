#include <catch2/catch.hpp>
#include <vector>

#include "loopback.hpp"
#include "net/http_client.hpp"
#include "net/server.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

HttpResponse answer(const HttpRequest& request) {
  if (request.path == "/v1/echo")
    return {200, "text/plain", request.method + " " + request.query.at("q") + " " + request.body};
  return {404, "application/json", R"({"error":"no such page"})"};
}

std::unique_ptr<Server> start(EventLoop& loop, ServerOptions options = {}) {
  auto server = Server::start(loop, std::move(options), {answer, {}, {}, {}});
  REQUIRE(server.ok());
  return std::move(server).value();
}

std::string raw_exchange(EventLoop& loop, const Server& server, const std::string& bytes) {
  std::string reply;
  while_loop_runs(loop, [&] {
    const auto client = RawClient::tcp(server.port());
    client.send(bytes);
    reply = client.read_all();
  });
  return reply;
}

Result<HttpReply> request(EventLoop& loop, std::uint16_t port, const std::string& method, const std::string& target,
                          const std::string& body = "") {
  Result<HttpReply> reply = unavailable("not asked");
  while_loop_runs(loop, [&] { reply = http_request({"127.0.0.1", port}, method, target, body, 10s); });
  return reply;
}

}  // namespace

TEST_CASE("GET and POST reach the handler and its answer comes back") {
  EventLoop loop;
  const auto server = start(loop);
  const auto got = request(loop, server->port(), "GET", "/v1/echo?q=a%20b");
  REQUIRE(got.ok());
  CHECK(got->status == 200);
  CHECK(got->body == "GET a b ");
  const auto posted = request(loop, server->port(), "POST", "/v1/echo?q=1", "body");
  REQUIRE(posted.ok());
  CHECK(posted->body == "POST 1 body");
}

TEST_CASE("a status of 400 or more is a reply, not an error") {
  EventLoop loop;
  const auto server = start(loop);
  const auto reply = request(loop, server->port(), "GET", "/nowhere");
  REQUIRE(reply.ok());
  CHECK(reply->status == 404);
}

TEST_CASE("who is told that it asks too often is told when to ask again") {
  EventLoop loop;
  const auto often = [](const HttpRequest&) { return HttpResponse{429, "text/plain", "later"}; };
  const auto server = Server::start(loop, {}, {often, {}, {}, {}});
  REQUIRE(server.ok());
  const std::string reply =
      raw_exchange(loop, **server, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(reply.find("\r\nRetry-After: 1\r\n") != std::string::npos);
}

TEST_CASE("HEAD is answered without a body") {
  EventLoop loop;
  const auto server = start(loop);
  const auto reply = request(loop, server->port(), "HEAD", "/nowhere");
  REQUIRE(reply.ok());
  CHECK(reply->status == 404);
  CHECK(reply->body.empty());
}

TEST_CASE("several requests share a connection") {
  EventLoop loop;
  const auto server = start(loop);
  const auto reply = raw_exchange(loop, *server,
                                  "GET /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                  "GET /v1/echo?q=2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(reply.find("GET 1") != std::string::npos);
  CHECK(reply.find("GET 2") != std::string::npos);
}

TEST_CASE("a server that hears no messages turns every WebSocket down, and goes on answering when many ask") {
  EventLoop loop;
  int opened = 0;
  ServerOptions options;
  options.max_connections = 4;
  const auto server = Server::start(loop, options, {answer, [&](PeerId) { ++opened; }, {}, {}}).value();
  const std::string upgrade =
      "GET /v1/agent HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
  std::vector<std::string> replies;
  std::string said;
  while_loop_runs(loop, [&] {
    std::vector<RawClient> clients;  // None of them closes.
    for (std::size_t i = 0; i < options.max_connections; ++i) {
      clients.push_back(RawClient::tcp(server->port()));
      clients.back().send(upgrade);
      replies.push_back(clients.back().read_exactly(12));
    }
    const auto person = RawClient::tcp(server->port());
    person.send("GET /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    said = person.read_all();
  });
  for (const std::string& reply : replies) CHECK(reply == "HTTP/1.1 404");
  CHECK(said.find("GET 1") != std::string::npos);
  CHECK(opened == 0);
  CHECK(raw_exchange(loop, *server, upgrade).find("there is no WebSocket here") != std::string::npos);
}

TEST_CASE("where no body is allowed a request without one is answered, and one with a body gets 413") {
  EventLoop loop;
  ServerOptions options;
  options.max_body_bytes = 0;
  const auto server = start(loop, options);
  CHECK(request(loop, server->port(), "GET", "/v1/echo?q=1").value().status == 200);
  CHECK(request(loop, server->port(), "POST", "/v1/echo?q=1", "x").value().status == 413);
}

TEST_CASE("a body beyond the limit is answered with 413, even to a client that sends it all") {
  EventLoop loop;
  ServerOptions options;
  options.max_body_bytes = 1000;
  const auto server = start(loop, options);
  const auto reply = request(loop, server->port(), "POST", "/v1/echo?q=1", std::string(3'000'000, 'x'));
  REQUIRE(reply.ok());
  CHECK(reply->status == 413);
}

TEST_CASE("a header beyond the limit is answered with 431") {
  EventLoop loop;
  const auto server = start(loop);
  const auto reply = raw_exchange(loop, *server, "GET / HTTP/1.1\r\nX: " + std::string(40'000, 'x') + "\r\n\r\n");
  CHECK(reply.find("431") != std::string::npos);
}

TEST_CASE("bytes that are not HTTP are answered with 400 and the server goes on") {
  EventLoop loop;
  const auto server = start(loop);
  CHECK(raw_exchange(loop, *server, "\x16\x03\x01 hello\r\n\r\n").starts_with("HTTP/1.1 400"));
  CHECK(raw_exchange(loop, *server, "GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 400"));
  CHECK(request(loop, server->port(), "GET", "/v1/echo?q=1").ok());
}

TEST_CASE("of transfer encodings chunked alone is read, and no other is taken for none") {
  EventLoop loop;
  const auto server = start(loop);
  for (const std::string encoding : {"xchunked", "gzip, chunked", "gzip"}) {
    const auto reply = raw_exchange(loop, *server,
                                    "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " + encoding +
                                        "\r\n\r\nGET /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(reply.starts_with("HTTP/1.1 400"));
    CHECK(reply.find("HTTP/1.1", 8) == std::string::npos);
  }
}

TEST_CASE("a request has one Host, one caller at most, and names no parameter twice") {
  EventLoop loop;
  const auto server = start(loop);
  const auto status_of = [&](const std::string& target, const std::string& headers) {
    return raw_exchange(loop, *server, "GET " + target + " HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
  };
  const std::string host = "Host: localhost\r\n";
  CHECK(status_of("/v1/echo?q=1&r=2", host).starts_with("HTTP/1.1 200"));
  for (const std::string& headers :
       {std::string(), host + host, host + "Host: evil.example\r\n", "Host: evil.example\r\n" + host}) {
    INFO(headers);
    const std::string reply = status_of("/v1/echo?q=1", headers);
    CHECK(reply.starts_with("HTTP/1.1 400"));
    CHECK(reply.find("a request has one Host header") != std::string::npos);
  }
  CHECK(status_of("/v1/echo?q=1", host + "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n")
            .starts_with("HTTP/1.1 400"));
  CHECK(status_of("/v1/echo?q=1&q=2", host).starts_with("HTTP/1.1 400"));
}

TEST_CASE("a request of a foreign web page is refused before the handler sees it") {
  EventLoop loop;
  const auto server = start(loop);
  const auto reply = raw_exchange(
      loop, *server,
      "POST /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n\r\n");
  CHECK(reply.starts_with("HTTP/1.1 403"));
}

TEST_CASE("a client that trickles its request is closed after the idle time") {
  EventLoop loop;
  ServerOptions options;
  options.idle_timeout = 50ms;
  const auto server = start(loop, options);
  CHECK(raw_exchange(loop, *server, "GET / HTTP/1.1\r\nX-Slow: ").empty());
}

TEST_CASE("a client that goes on trickling is closed all the same, in its header and in its body") {
  const std::string head = "POST /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
  for (const std::string& begin : {std::string("GET / HTTP/1.1\r\nX-Slow: "), head}) {
    EventLoop loop;
    ServerOptions options;
    options.idle_timeout = 100ms;
    std::vector<Refusal> refusals;
    ServerHandlers handlers{answer, {}, {}, {}};
    handlers.refused = [&](const Refusal& refusal) { refusals.push_back(refusal); };
    const auto server = Server::start(loop, options, handlers);
    REQUIRE(server.ok());
    const auto client = RawClient::tcp((*server)->port());
    client.send(begin);
    int sent = 0;
    const auto trickle = loop.every(5ms, [&] { sent += client.send("x") ? 1 : 0; });
    CHECK(run_until(loop, [&] { return !refusals.empty(); }));
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].kind == Refusal::Kind::kSlow);
    CHECK(sent > 1);
  }
}

TEST_CASE("a client that closes its sending half still gets its answer") {
  EventLoop loop;
  const auto server = start(loop);
  std::string reply;
  while_loop_runs(loop, [&] {
    const auto client = RawClient::tcp(server->port());
    client.send("GET /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.shut_down_sending();
    reply = client.read_all();
  });
  CHECK(reply.find("GET 1") != std::string::npos);
}

TEST_CASE("when there are too many connections the one that has been silent for longest gives way") {
  EventLoop loop;
  std::vector<Refusal> refusals;
  ServerOptions options;
  options.max_connections = 3;
  ServerHandlers handlers{answer, {}, {}, {}};
  handlers.refused = [&](const Refusal& refusal) { refusals.push_back(refusal); };
  const auto server = Server::start(loop, options, std::move(handlers)).value();
  std::string said;
  std::string kept;
  std::string first_end = "open";
  while_loop_runs(loop, [&] {
    const auto first = RawClient::tcp(server->port());
    const auto second = RawClient::tcp(server->port());
    const auto third = RawClient::tcp(server->port());
    second.send("GET /v1/echo?q=2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    static_cast<void>(second.read_exactly(12));
    const auto other = RawClient::tcp(server->port());
    other.send("GET /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    said = other.read_all();
    first_end = first.read_all();
    third.send("GET /v1/echo?q=3 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    kept = third.read_all();
  });
  CHECK(said.find("GET 1") != std::string::npos);
  CHECK(first_end.empty());
  CHECK(kept.find("GET 3") != std::string::npos);
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].kind == Refusal::Kind::kFull);
}

namespace {

// Callers that announce bodies of 8 MiB and send nothing of them.
struct Announcing {
  EventLoop loop;
  std::size_t admitted = 0;
  std::vector<Refusal> refusals;
  std::unique_ptr<Server> server;
  std::vector<RawClient> held;

  Announcing() {
    ServerHandlers handlers{answer, {}, {}, {}};
    handlers.admit = [this](const HttpRequest&) -> std::optional<HttpResponse> {
      ++admitted;
      return std::nullopt;
    };
    handlers.refused = [this](const Refusal& refusal) { refusals.push_back(refusal); };
    server = Server::start(loop, {}, std::move(handlers)).value();
  }
  static std::string head(const std::string& caller, const std::string& length) {
    return "POST /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + caller +
           "\r\n" + length + "\r\n\r\n";
  }
  void hold(const std::string& caller, std::size_t count) {
    const std::size_t before = admitted;
    for (std::size_t i = 0; i < count; ++i) {
      held.push_back(RawClient::tcp(server->port()));
      held.back().send(head(caller, "Content-Length: 8388608"));
    }
    REQUIRE(run_until(loop, [&] { return admitted == before + count; }));
  }
  std::string post(const std::string& caller) {
    return raw_exchange(loop, *server, head(caller, "Content-Length: 4") + "body");
  }
};

}  // namespace

TEST_CASE("what one caller's bodies may take is bounded, and others have room") {
  Announcing one;
  one.hold("ana", 8);
  const std::string refused = one.post("ana");
  CHECK(refused.starts_with("HTTP/1.1 503"));
  CHECK(refused.find("\r\nRetry-After: 1\r\n") != std::string::npos);
  REQUIRE(one.refusals.size() == 1);
  CHECK(one.refusals[0].kind == Refusal::Kind::kFull);
  CHECK(raw_exchange(one.loop, *one.server, Announcing::head("ana", "Transfer-Encoding: chunked"))
            .starts_with("HTTP/1.1 503"));
  CHECK(one.post("ben").find("POST 1 body") != std::string::npos);
  one.held.pop_back();
  bool again = false;
  for (int tries = 0; tries < 100 && !again; ++tries) again = one.post("ana").starts_with("HTTP/1.1 200");
  CHECK(again);
  CHECK(one.post("ana").starts_with("HTTP/1.1 200"));  // what was handled takes no room
}

TEST_CASE("what all callers' bodies may take is bounded, and a request without one is answered") {
  Announcing all;
  for (const char* caller : {"ana", "ben", "cho", "dan"}) all.hold(caller, 8);
  CHECK(all.post("eve").starts_with("HTTP/1.1 503"));
  CHECK(request(all.loop, all.server->port(), "GET", "/v1/echo?q=a")->status == 200);
}

TEST_CASE("connections that come too fast are taken later, and every one is answered") {
  EventLoop loop;
  ServerOptions options;
  options.max_connection_rate = 100;
  const auto server = start(loop, options);
  const auto began = std::chrono::steady_clock::now();
  int answered = 0;
  while_loop_runs(loop, [&] {
    std::vector<RawClient> clients;
    for (int i = 0; i < 150; ++i) {
      clients.push_back(RawClient::tcp(server->port()));
      clients.back().send("GET /v1/echo?q=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    }
    for (const RawClient& client : clients) answered += client.read_all().starts_with("HTTP/1.1 200") ? 1 : 0;
  });
  CHECK(answered == 150);
  // A second's worth at once, and half a second for the others.
  CHECK(std::chrono::steady_clock::now() - began >= 450ms);
}

TEST_CASE("a port in use is refused with its number and what to do") {
  EventLoop loop;
  const auto server = start(loop);
  ServerOptions options;
  options.port = server->port();
  const auto second = Server::start(loop, options, {});
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().kind == ErrorKind::kUnavailable);
  CHECK(second.error().message.find(std::to_string(server->port())) != std::string::npos);
  CHECK(second.error().message.find("choose another port") != std::string::npos);
}

TEST_CASE("an address that is not one is refused") {
  EventLoop loop;
  ServerOptions options;
  options.address = "not an address";
  const auto server = Server::start(loop, options, {});
  REQUIRE_FALSE(server.ok());
  CHECK(server.error().kind == ErrorKind::kBadInput);
}

TEST_CASE("a refused connection says that nothing listens and how to start it") {
  EventLoop loop;
  std::uint16_t port = 0;
  { port = start(loop)->port(); }
  const auto reply = http_request({"127.0.0.1", port}, "GET", "/", "", 5s);
  REQUIRE_FALSE(reply.ok());
  CHECK(reply.error().message.find("nothing listens on 127.0.0.1") != std::string::npos);
  CHECK(reply.error().message.find("trimtab up") != std::string::npos);
}

TEST_CASE("a server that does not answer ends the request at its deadline") {
  EventLoop loop;
  const auto server = start(loop);  // Its loop does not run.
  const auto reply = http_request({"127.0.0.1", server->port()}, "GET", "/", "", 50ms);
  REQUIRE_FALSE(reply.ok());
  CHECK(reply.error().message.find("no answer") != std::string::npos);
}
