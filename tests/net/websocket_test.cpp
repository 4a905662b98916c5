#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "websocket_pair.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

TEST_CASE("frames go both ways, in order") {
  Pair pair;
  pair.serve();
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  CHECK(pair.link->open());
  for (int i = 0; i < 200; ++i) CHECK(pair.link->send(std::to_string(i)));
  REQUIRE(run_until(pair.loop, [&] { return pair.received.size() == 200; }));
  for (std::size_t i = 0; i < 200; ++i) CHECK(pair.received[i] == "echo " + std::to_string(i));
}

TEST_CASE("a frame of a megabyte arrives whole") {
  Pair pair;
  pair.serve();
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  CHECK(pair.link->send(std::string(1 << 20, 'x')));
  REQUIRE(run_until(pair.loop, [&] { return pair.received.size() == 1; }));
  CHECK(pair.received[0].size() == (1 << 20) + 5);
}

TEST_CASE("nothing can be sent before the link is open, nor beyond its queue") {
  Pair pair;
  pair.serve();
  LinkOptions options;
  options.max_queued_bytes = 1000;
  pair.connect(options);
  CHECK_FALSE(pair.link->send("early"));
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  CHECK_FALSE(pair.link->send(std::string(1001, 'x')));
  CHECK(pair.link->send(std::string(1000, 'x')));
  CHECK_FALSE(pair.link->send("x"));
}

TEST_CASE("a peer that is closed gets what was queued for it first") {
  Pair pair;
  pair.serve();
  pair.on_message = [&](PeerId peer, std::string_view) {
    pair.server->send(peer, "refused");
    pair.server->close(peer);
    CHECK_FALSE(pair.server->send(peer, "too late"));
  };
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  pair.link->send("hello");
  REQUIRE(run_until(pair.loop, [&] { return !pair.link_ends.empty() && !pair.peer_ends.empty(); }));
  CHECK(pair.received == std::vector<std::string>{"refused"});
  CHECK(pair.peer_ends.size() == 1);
}

TEST_CASE("a frame beyond the limit closes that peer only") {
  Pair pair;
  ServerOptions options;
  options.max_frame_bytes = 100;
  pair.serve(options);
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  pair.link->send(std::string(101, 'x'));
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 1; }));
  CHECK(pair.peer_ends[0].find("100 bytes") != std::string::npos);
  REQUIRE(pair.refusals.size() == 1);
  CHECK(pair.refusals[0].kind == Refusal::Kind::kTooLarge);
  CHECK(pair.refusals[0].address.starts_with("127.0.0.1:"));
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 2; }));
}

TEST_CASE("text frames, broken frames and a vanished peer end with one reason each") {
  Pair pair;
  ServerOptions options;
  options.idle_timeout = 200ms;  // Also bounds how long a peer that broke the rules may take to close.
  pair.serve(options);
  after_upgrade(pair, std::string("\x81\x82\x00\x00\x00\x00hi", 8));
  after_upgrade(pair, std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8));
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 2; }));
  CHECK(pair.peer_ends[0].find("text frame") != std::string::npos);
  while_loop_runs(pair.loop, [&] {
    const auto client = RawClient::tcp(pair.server->port());
    client.send(kUpgrade);
    static_cast<void>(client.read_exactly(20));
  });
  CHECK(run_until(pair.loop, [&] { return pair.peer_ends.size() == 3; }));
  CHECK(pair.opened.size() == 3);
}

TEST_CASE("a WebSocket at another path is answered with 404") {
  Pair pair;
  pair.serve();
  LinkOptions options;
  options.path = "/elsewhere";
  pair.connect(options);
  REQUIRE(run_until(pair.loop, [&] { return !pair.link_ends.empty(); }));
  CHECK(pair.opened.empty());
  CHECK(pair.link_opened == 0);
}

TEST_CASE("a silent peer is noticed and closed") {
  Pair pair;
  ServerOptions options;
  options.idle_timeout = 100ms;
  pair.serve(options);
  while_loop_runs(pair.loop, [&] {
    const auto client = RawClient::tcp(pair.server->port());
    client.send(kUpgrade);
    static_cast<void>(client.read_all());  // Reads the pings and answers none.
  });
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 1; }));
  CHECK(pair.peer_ends[0].find("silent") != std::string::npos);
}

TEST_CASE("a quiet but living link stays open beyond the idle time") {
  Pair pair;
  ServerOptions options;
  options.idle_timeout = 60ms;
  pair.serve(options);
  LinkOptions link_options;
  link_options.silence_limit = 60ms;
  pair.connect(link_options);
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  const auto end = pair.loop.after(300ms, [&] { pair.loop.stop(); });
  pair.loop.run();
  CHECK(pair.link->open());
  CHECK(pair.link_ends.empty());
}

TEST_CASE("a peer that does not read is closed when its queue is full") {
  Pair pair;
  ServerOptions options;
  options.max_queued_bytes = 1 << 20;
  pair.serve(options);
  std::optional<RawClient> client;
  while_loop_runs(pair.loop, [&] {
    client.emplace(RawClient::tcp(pair.server->port()));
    client->send(kUpgrade);
    static_cast<void>(client->read_exactly(20));
  });
  REQUIRE(run_until(pair.loop, [&] { return pair.opened.size() == 1; }));
  const std::string block(256 * 1024, 'x');
  CHECK(run_until(pair.loop, [&] { return !pair.server->send(pair.opened[0], block); }));
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 1; }));
  CHECK(pair.peer_ends[0].find("does not read") != std::string::npos);
  REQUIRE(pair.refusals.size() == 1);
  CHECK(pair.refusals[0].kind == Refusal::Kind::kSlow);
}

TEST_CASE("a sender that asks for room has no peer closed, and all that it has comes") {
  Pair pair;
  ServerOptions options;
  options.max_queued_bytes = 1 << 20;
  pair.serve(options);
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  const std::string block(300'000, 'x');
  const PeerId peer = pair.opened[0];
  CHECK(pair.server->has_room(peer, 2 << 20));  // nothing waits: send() says whether it is too much at all
  std::size_t sent = 0;
  int full = 0;
  REQUIRE(run_until(pair.loop, [&] {
    while (sent < 20 && pair.server->has_room(peer, block.size())) {
      REQUIRE(pair.server->send(peer, block));
      ++sent;
    }
    full += sent < 20 ? 1 : 0;
    return pair.received.size() == 20;
  }));
  CHECK(full > 0);
  CHECK(pair.peer_ends.empty());
}

TEST_CASE("half of a peer's queue, and of all queues, is kept free, and a peer for which nothing waits has room") {
  Pair pair;
  ServerOptions options;
  options.max_queued_bytes = 1 << 20;
  options.all_queued_bytes = 1 << 20;
  pair.serve(options);
  std::optional<RawClient> silent;
  while_loop_runs(pair.loop, [&] {
    silent.emplace(RawClient::tcp(pair.server->port()));
    silent->send(kUpgrade);
    static_cast<void>(silent->read_exactly(20));
  });
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.opened.size() == 2; }));
  const std::string block(100'000, 'x');
  // Beyond what the kernel takes for it.
  CHECK(run_until(pair.loop, [&] {
    if (pair.server->has_room(pair.opened[0], block.size())) pair.server->send(pair.opened[0], block);
    return pair.server->taken().queues > 400'000;
  }));
  CHECK_FALSE(pair.server->has_room(pair.opened[0], 200'000));
  CHECK(pair.server->has_room(pair.opened[0], 1000));
  CHECK(pair.server->has_room(pair.opened[1], 500'000));
  REQUIRE(pair.server->send(pair.opened[1], block));
  CHECK_FALSE(pair.server->has_room(pair.opened[1], 100'000));
  CHECK(pair.server->has_room(99, 100'000));
  CHECK(pair.peer_ends.empty());
}

TEST_CASE("frames beyond the rate are read later, and none is lost") {
  Pair pair;
  ServerOptions options;
  options.max_rate.frames_per_second = 100;
  pair.serve(options);
  pair.connect();
  std::size_t heard = 0;
  pair.on_message = [&](PeerId, std::string_view) { ++heard; };
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 120; ++i) REQUIRE(pair.link->send("frame"));
  REQUIRE(run_until(pair.loop, [&] { return heard == 120; }));
  // A second's worth comes at once, the last 20 at their rate.
  CHECK(std::chrono::steady_clock::now() - begin >= 190ms);
  CHECK(pair.delays > 0);
  CHECK(pair.peer_ends.empty());
}

TEST_CASE("bytes beyond the rate are read later, and none is lost") {
  Pair pair;
  ServerOptions options;
  options.max_rate.bytes_per_second = 100'000;
  pair.serve(options);
  pair.connect();
  std::size_t heard = 0;
  pair.on_message = [&](PeerId, std::string_view) { ++heard; };
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 13; ++i) REQUIRE(pair.link->send(std::string(10'000, 'x')));
  REQUIRE(run_until(pair.loop, [&] { return heard == 13; }));
  CHECK(std::chrono::steady_clock::now() - begin >= 190ms);
  CHECK(pair.delays > 0);
  CHECK(pair.peer_ends.empty());
}

TEST_CASE("messages wait for as long as the daemon says, and come in their order") {
  Pair pair;
  pair.serve();
  pair.connect();
  std::vector<std::string> heard;
  pair.on_message = [&](PeerId, std::string_view frame) { heard.emplace_back(frame); };
  int asked = 0;
  bool busy = true;
  pair.wait = [&](PeerId) {
    ++asked;
    return busy ? Nanoseconds(1ms) : Nanoseconds(0);
  };
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1; }));
  for (const char* frame : {"first", "second"}) REQUIRE(pair.link->send(frame));
  REQUIRE(run_until(pair.loop, [&] { return asked == 3; }));
  CHECK(heard.empty());
  busy = false;
  REQUIRE(run_until(pair.loop, [&] { return heard.size() == 2; }));
  CHECK(heard == std::vector<std::string>{"first", "second"});
  CHECK(pair.peer_ends.empty());
  // One that is closed meanwhile is not heard any more.
  busy = true;
  REQUIRE(pair.link->send("third"));
  const int before = asked;
  REQUIRE(run_until(pair.loop, [&] { return asked > before; }));
  pair.server->close(pair.opened[0]);
  busy = false;
  REQUIRE(run_until(pair.loop, [&] { return pair.closed.size() == 1; }));
  CHECK(heard.size() == 2);
}

TEST_CASE("a link reads a server that floods it at its own rate") {
  Pair pair;
  pair.serve();
  LinkOptions options;
  options.max_rate.frames_per_second = 100;
  pair.connect(options);
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1 && pair.opened.size() == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 120; ++i) REQUIRE(pair.server->send(pair.opened[0], "frame"));
  REQUIRE(run_until(pair.loop, [&] { return pair.received.size() == 120; }));
  CHECK(std::chrono::steady_clock::now() - begin >= 190ms);
  CHECK(pair.link->counters().delayed > 0);
}

TEST_CASE("a link refuses a frame beyond its limit, and what it is told to drop, and comes back") {
  Pair pair;
  pair.serve();
  LinkOptions options;
  options.max_frame_bytes = 100;
  pair.connect(options);
  REQUIRE(run_until(pair.loop, [&] { return pair.opened.size() == 1; }));
  CHECK(pair.server->send(pair.opened[0], std::string(101, 'x')));
  REQUIRE(run_until(pair.loop, [&] { return pair.link_ends.size() == 1 && pair.opened.size() == 2; }));
  CHECK(pair.link->counters().too_large == 1);
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 2; }));
  pair.link->drop("its words make no sense");
  CHECK_FALSE(pair.link->open());
  CHECK(pair.link_ends.at(1).find("its words make no sense") != std::string::npos);
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 3; }));
}

TEST_CASE("who floods with pings or pongs is ended, in the middle of a message as well") {
  Pair pair;
  pair.serve();
  const std::string ping("\x89\x80\x00\x00\x00\x00", 6);
  const std::string pong("\x8a\x80\x00\x00\x00\x00", 6);
  const std::string first_fragment("\x02\x80\x00\x00\x00\x00", 6);
  std::string flood = GENERATE(false, true) ? first_fragment : std::string();
  const bool pings = GENERATE(false, true);
  for (int i = 0; i < 200; ++i) flood += pings ? ping : pong;
  after_upgrade(pair, flood);
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 1; }));
  CHECK(pair.peer_ends[0].find("control frames") != std::string::npos);
  REQUIRE(pair.refusals.size() == 1);
  CHECK(pair.refusals[0].kind == Refusal::Kind::kMalformed);
}

TEST_CASE("who floods with frames that hold nothing, or next to nothing, is ended") {
  Pair pair;
  pair.serve();
  const std::string empty("\x00\x80\x00\x00\x00\x00", 6);
  const std::string one("\x00\x81\x00\x00\x00\x00x", 7);
  const bool is_empty = GENERATE(false, true);
  std::string flood("\x02\x80\x00\x00\x00\x00", 6);
  for (int i = 0; i < 500'000; ++i) flood += is_empty ? empty : one;
  after_upgrade(pair, flood);
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() == 1; }));
  CHECK_THAT(pair.peer_ends[0], Catch::Contains("frames that hold nothing"));
}

TEST_CASE("when every connection is of use a new one is closed at once") {
  Pair pair;
  ServerOptions options;
  options.introduction_timeout = 10s;
  options.max_connections = 1;
  pair.serve(options);
  bool introduced = false;
  pair.on_message = [&](PeerId peer, std::string_view) {
    pair.server->introduced(peer);
    introduced = true;
  };
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.opened.size() == 1 && pair.link_opened == 1; }));
  REQUIRE(pair.link->send("hello"));
  REQUIRE(run_until(pair.loop, [&] { return introduced; }));
  std::string said = "open";
  while_loop_runs(pair.loop, [&] { said = RawClient::tcp(pair.server->port()).read_all(); });
  CHECK(said.empty());
  CHECK(pair.link->open());
  REQUIRE(pair.refusals.size() == 1);
  CHECK(pair.refusals[0].kind == Refusal::Kind::kFull);
}

TEST_CASE("stopping the server reports each peer as closed, once") {
  Pair pair;
  pair.serve();
  pair.connect();
  REQUIRE(run_until(pair.loop, [&] { return pair.link_opened == 1 && pair.opened.size() == 1; }));
  pair.server->stop();
  pair.server->stop();
  CHECK(pair.peer_ends == std::vector<std::string>{"the server stops"});
  CHECK(run_until(pair.loop, [&] { return !pair.link_ends.empty(); }));
}
