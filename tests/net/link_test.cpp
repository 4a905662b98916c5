#include "net/link.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "loopback.hpp"
#include "net/server.hpp"
#include "slow_proxy.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<Server> serve(EventLoop& loop, std::uint16_t port) {
  ServerOptions options;
  options.port = port;
  auto server = Server::start(loop, options, {{}, {}, [](PeerId, std::string_view) {}, {}});
  REQUIRE(server.ok());
  return std::move(server).value();
}

}  // namespace

TEST_CASE("a link comes back after the server was away, and says why it was gone") {
  EventLoop loop;
  auto server = serve(loop, 0);
  LinkOptions options;
  options.port = server->port();
  int opened = 0;
  std::vector<std::string> ends;
  Link link(loop, options, {[&] { ++opened; }, {}, [&](const std::string& reason) { ends.push_back(reason); }}, 3);
  link.start();
  REQUIRE(run_until(loop, [&] { return opened == 1; }));
  server.reset();
  REQUIRE(run_until(loop, [&] { return ends.size() >= 2; }));
  CHECK_FALSE(link.open());
  CHECK(ends.back().find("127.0.0.1:" + std::to_string(options.port)) != std::string::npos);
  server = serve(loop, options.port);
  REQUIRE(run_until(loop, [&] { return opened == 2; }));
  CHECK(link.open());
}

TEST_CASE("a link to a name that does not exist keeps trying and says so") {
  EventLoop loop;
  LinkOptions options;
  options.host = "no-such-host.invalid";
  std::string reason;
  Link link(loop, options, {{}, {}, [&](const std::string& why) { reason = why; }}, 3);
  link.start();
  REQUIRE(run_until(loop, [&] { return !reason.empty(); }));
  CHECK(reason.find("couldn't resolve its name") != std::string::npos);
}

TEST_CASE("a server that accepts and stays silent ends the attempt") {
  EventLoop loop;
  LinkOptions options;
  options.silence_limit = 80ms;
  auto server = serve(loop, 0);
  options.port = server->port();
  int opened = 0;
  std::string reason;
  Link link(loop, options, {[&] { ++opened; }, {}, [&](const std::string& why) { reason = why; }}, 3);
  link.start();
  REQUIRE(run_until(loop, [&] { return opened == 1; }));
  link.stop();
  const auto quiet = loop.after(50ms, [&] { loop.stop(); });
  loop.run();
  CHECK(reason.empty());  // No callback after stop().
  CHECK_FALSE(link.open());
}

TEST_CASE("a frame that is long on its way over a slow link is no silence") {
  EventLoop loop;
  std::size_t received = 0;
  auto server = Server::start(loop, {}, {{}, {}, [&](PeerId, std::string_view frame) { received = frame.size(); }, {}});
  REQUIRE(server.ok());
  SlowProxy proxy((*server)->port());
  LinkOptions options;
  options.port = proxy.port();
  options.silence_limit = 300ms;
  int opened = 0;
  std::vector<std::string> ends;
  Link link(loop, options, {[&] { ++opened; }, {}, [&](const std::string& why) { ends.push_back(why); }}, 3);
  link.start();
  REQUIRE(run_until(loop, [&] { return opened == 1; }));
  constexpr std::size_t kBytes = 1 << 20;  // some 1.3 s
  REQUIRE(link.send(std::string(kBytes, 'x')));
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run_until(loop, [&] { return received > 0 || !ends.empty(); }));
  CHECK(std::chrono::steady_clock::now() - begin > 2 * options.silence_limit);
  CHECK(received == kBytes);
  CHECK(ends.empty());
  // Where nothing is taken any more, much that waits does not make it alive.
  proxy.stand_still();
  REQUIRE(link.send(std::string(8 * kBytes, 'x')));
  const auto cut = std::chrono::steady_clock::now();
  REQUIRE(run_until(loop, [&] { return !ends.empty(); }));
  CHECK(ends[0].find("silent for too long") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - cut < 3s);
}

TEST_CASE("what waits to be sent is counted, bounded and gone once the other side has it") {
  EventLoop loop;
  std::size_t received = 0;
  ServerOptions serving;
  auto server =
      Server::start(loop, serving, {{}, {}, [&](PeerId, std::string_view frame) { received += frame.size(); }, {}});
  REQUIRE(server.ok());
  LinkOptions options;
  options.port = (*server)->port();
  options.max_queued_bytes = 1000;
  int opened = 0;
  Link link(loop, options, {[&] { ++opened; }, {}, {}}, 3);
  CHECK(link.queued_bytes() == 0);
  CHECK_FALSE(link.send("too early"));
  link.start();
  REQUIRE(run_until(loop, [&] { return opened == 1; }));
  // The loop stands still: nothing is sent.
  CHECK(link.send(std::string(400, 'a')));
  CHECK(link.queued_bytes() == 400);
  CHECK(link.send(std::string(600, 'b')));
  CHECK(link.queued_bytes() == 1000);
  CHECK_FALSE(link.send("x"));
  CHECK(link.queued_bytes() == 1000);
  REQUIRE(run_until(loop, [&] { return received == 1000; }));
  REQUIRE(run_until(loop, [&] { return link.queued_bytes() == 0; }));
  CHECK(link.send(std::string(1000, 'c')));
  (*server).reset();
  REQUIRE(run_until(loop, [&] { return !link.open(); }));
  CHECK(link.queued_bytes() == 0);
}
