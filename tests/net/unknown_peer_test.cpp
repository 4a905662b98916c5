// What a WebSocket may do, take and wait for before it has said who it is.

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "../peak_memory.hpp"
#include "websocket_pair.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

TEST_CASE("who has not said who it is sends small frames only, and then large ones") {
  Pair pair;
  ServerOptions options;
  options.introduction_timeout = 10s;
  options.max_frame_bytes_of_unknown = 100;
  pair.serve(options);
  pair.connect();
  pair.on_message = [&](PeerId peer, std::string_view frame) {
    if (frame == "hello") pair.server->introduced(peer);
  };
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  REQUIRE(pair.link->send(std::string(101, 'x')));
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 1; }));
  CHECK(pair.peer_ends[0] == "it sent a frame of more than 100 bytes before it had said who it is");
  REQUIRE(pair.refusals.size() == 1);
  CHECK(pair.refusals[0].kind == Refusal::Kind::kTooLarge);
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 2; }));
  std::size_t largest = 0;
  pair.on_message = [&, introduce = pair.on_message](PeerId peer, std::string_view frame) {
    introduce(peer, frame);
    largest = std::max(largest, frame.size());
  };
  REQUIRE(pair.link->send("hello"));
  REQUIRE(pair.link->send(std::string(1'000'000, 'x')));
  CHECK(run_until(pair.loop, [&] { return largest == 1'000'000; }));
}

TEST_CASE("half frames of many that have not said who they are take bounded memory, and the oldest give way") {
  Pair pair;
  ServerOptions options;
  options.introduction_timeout = 60s;
  pair.serve(options);
  std::size_t largest = 0;
  pair.on_message = [&](PeerId peer, std::string_view frame) {
    largest = frame.size();
    pair.server->introduced(peer);
  };
  const std::string of_a_mebibyte("\x82\xff\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00", 14);
  const std::string half = of_a_mebibyte + std::string((1 << 20) - 1, 'x');
  const test::PeakMemory memory;
  std::vector<RawClient> clients;
  while_loop_runs(pair.loop, [&] {
    for (int i = 0; i < 100; ++i) {
      clients.push_back(RawClient::tcp(pair.server->port()));
      clients.back().send(kUpgrade);
      static_cast<void>(clients.back().read_exactly(20));
      clients.back().send(half);
    }
  });
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() >= 36; }));
  CHECK(pair.opened.size() == 100);
  CHECK(pair.peer_ends.size() <= 70);  // a buffer may be twice as large as what it holds
  for (const Refusal& refusal : pair.refusals) CHECK(refusal.kind == Refusal::Kind::kFull);
  CHECK_THAT(pair.peer_ends[0], Catch::Contains("half frames of those that have not said who they are"));
  for (std::size_t i = 0; i < pair.closed.size(); ++i) CHECK(pair.closed[i] == pair.opened[i]);  // the oldest first
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(memory.growth_bytes() < std::int64_t{90} << 20);
#endif
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  REQUIRE(pair.link->send(std::string(1'000'000, 'x')));
  CHECK(run_until(pair.loop, [&] { return largest == 1'000'000; }));
}

TEST_CASE("a WebSocket that does not say who it is ends in time, whatever else it sends") {
  Pair pair;
  ServerOptions options;
  options.introduction_timeout = 150ms;
  pair.serve(options);
  pair.on_message = [](PeerId, std::string_view) {};
  const std::string ping("\x89\x80\x00\x00\x00\x00", 6);
  const std::string first_fragment("\x02\x80\x00\x00\x00\x00", 6);
  const std::string fragment("\x00\x80\x00\x00\x00\x00", 6);
  while_loop_runs(pair.loop, [&] {
    const auto client = RawClient::tcp(pair.server->port());
    client.send(kUpgrade);
    static_cast<void>(client.read_exactly(20));
    client.send(first_fragment + ping);
    while (client.send(fragment)) {
    }
  });
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 1; }));
  CHECK(pair.peer_ends[0].find("did not say who it is") != std::string::npos);
  REQUIRE(pair.refusals.size() == 1);
  CHECK(pair.refusals[0].kind == Refusal::Kind::kSlow);
}

TEST_CASE("one that has said who it is stays, also when there are too many connections, and others give way") {
  Pair pair;
  ServerOptions options;
  options.introduction_timeout = 10s;
  options.max_connections = 2;
  pair.serve(options);
  pair.on_message = [&](PeerId peer, std::string_view) { pair.server->introduced(peer); };
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.opened.size() == 1 && pair.link_opened == 1; }));
  REQUIRE(pair.link->send("hello"));
  std::optional<RawClient> silent;
  while_loop_runs(pair.loop, [&] {
    silent.emplace(RawClient::tcp(pair.server->port()));
    silent->send(kUpgrade);
    static_cast<void>(silent->read_exactly(20));
  });
  REQUIRE(run_until(pair.loop, [&] { return pair.opened.size() == 2; }));
  while_loop_runs(pair.loop, [&] {
    const auto another = RawClient::tcp(pair.server->port());
    another.send(kUpgrade);
    CHECK(another.read_exactly(12) == "HTTP/1.1 101");
  });
  CHECK(pair.peer_ends.at(0).find("silent for longest") != std::string::npos);
  CHECK(pair.link->open());
  CHECK(pair.link_ends.empty());
}
