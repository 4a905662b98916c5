// What connections together may take of a server's memory, and who gives way where it is too much.

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "../peak_memory.hpp"
#include "websocket_pair.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// More than the kernel takes of a connection that nobody reads.
constexpr std::size_t kLarge = 24 * kMiB;

std::string get(const std::string& target, const std::string& token = "") {
  const std::string shown = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + shown + "Connection: close\r\n\r\n";
}

std::string upgrade(const std::string& token) {
  std::string text = kUpgrade;
  return text.insert(text.find("Upgrade:"), "Authorization: Bearer " + token + "\r\n");
}

struct Answering {
  EventLoop loop;
  std::unique_ptr<Server> server;
  std::vector<Refusal> refusals;
  std::vector<HttpResponse::Answer> waiting;

  explicit Answering(ServerOptions options) {
    ServerHandlers handlers;
    handlers.http = [this](const HttpRequest& request) {
      if (request.path == "/large") return HttpResponse{200, "text/plain", std::string(kLarge, 'x')};
      HttpResponse response{200, "text/plain", "small"};
      if (request.path == "/later") {
        response.later = [this](HttpResponse::Answer answer) { waiting.push_back(std::move(answer)); };
      }
      return response;
    };
    handlers.refused = [this](const Refusal& refusal) { refusals.push_back(refusal); };
    server = Server::start(loop, std::move(options), std::move(handlers)).value();
  }
  std::string whole(const std::string& request) {
    std::string answer;
    while_loop_runs(loop, [&] {
      const auto client = RawClient::tcp(server->port());
      client.send(request);
      answer = client.read_all();
    });
    return answer;
  }
};

}  // namespace

TEST_CASE("answers that nobody reads take bounded memory, and who reads is answered") {
  ServerOptions options;
  options.answers = {4 * kLarge, 2 * kLarge};
  Answering one(options);
  std::vector<RawClient> silent;
  const test::PeakMemory memory;
  while_loop_runs(one.loop, [&] {
    for (int i = 0; i < 12; ++i) {
      silent.push_back(RawClient::tcp(one.server->port()));
      silent.back().send(get("/large", i % 2 == 0 ? "ana" : "bob"));
    }
  });
  REQUIRE(run_until(one.loop, [&] { return one.refusals.size() >= 8; }));
  CHECK(one.server->taken().answers <= 4 * kLarge);
  CHECK(one.refusals[0].kind == Refusal::Kind::kSlow);
  CHECK_THAT(one.refusals[0].reason, Catch::Contains("does not read its answer"));
  const std::string answer = one.whole(get("/large", "eve"));
  CHECK(answer.size() > kLarge);
  CHECK(one.whole(get("/small")).ends_with("small"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(memory.growth_bytes() < static_cast<std::int64_t>(8 * kLarge));  // the reader's own copies, too
#endif
}

TEST_CASE("an answer that is not read in time ends the connection, and gives its room back") {
  ServerOptions options;
  options.idle_timeout = 200ms;
  Answering one(options);
  std::optional<RawClient> silent;
  while_loop_runs(one.loop, [&] {
    silent.emplace(RawClient::tcp(one.server->port()));
    silent->send(get("/large"));
  });
  REQUIRE(run_until(one.loop, [&] { return one.refusals.size() == 1; }));
  CHECK_THAT(one.refusals[0].reason, Catch::Contains("did not read its answer in time"));
  CHECK(run_until(one.loop, [&] { return one.server->taken().answers == 0; }));
}

TEST_CASE("an answer may come later, and others are answered meanwhile") {
  Answering one({});
  std::optional<RawClient> waits;
  while_loop_runs(one.loop, [&] {
    waits.emplace(RawClient::tcp(one.server->port()));
    waits->send(get("/later"));
  });
  REQUIRE(run_until(one.loop, [&] { return one.waiting.size() == 1; }));
  CHECK(one.whole(get("/small")).ends_with("small"));
  one.waiting[0]({200, "text/plain", "made"});
  std::string answer;
  while_loop_runs(one.loop, [&] { answer = waits->read_all(); });
  CHECK(answer.ends_with("made"));
}

TEST_CASE("an answer that its maker has forgotten is said to be none") {
  Answering one({});
  std::optional<RawClient> waits;
  while_loop_runs(one.loop, [&] {
    waits.emplace(RawClient::tcp(one.server->port()));
    waits->send(get("/later"));
  });
  REQUIRE(run_until(one.loop, [&] { return one.waiting.size() == 1; }));
  one.waiting.clear();
  std::string answer;
  while_loop_runs(one.loop, [&] { answer = waits->read_all(); });
  CHECK_THAT(answer, Catch::StartsWith("HTTP/1.1 503"));
}

TEST_CASE("half frames of one token are bounded also once it has said hello, and others' are left alone") {
  Pair pair;
  ServerOptions options;
  options.max_frame_bytes = kMiB;
  options.half_frames = {32 * kMiB, 4 * kMiB};
  pair.serve(options);
  std::size_t largest = 0;
  pair.on_message = [&](PeerId, std::string_view frame) { largest = frame.size(); };
  const std::string of_a_mebibyte("\x82\xff\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00", 14);
  std::vector<RawClient> clients;
  const auto begin = [&](const std::string& token) {
    clients.push_back(RawClient::tcp(pair.server->port()));
    clients.back().send(upgrade(token));
    static_cast<void>(clients.back().read_exactly(20));
    clients.back().send(of_a_mebibyte + std::string(kMiB - 1, 'x'));
  };
  while_loop_runs(pair.loop, [&] {
    begin("bob");
    for (int i = 0; i < 20; ++i) begin("ana");
  });
  REQUIRE(run_until(pair.loop, [&] { return pair.peer_ends.size() >= 15; }));
  CHECK(pair.server->taken().half_frames <= 6 * kMiB);
  for (const std::string& reason : pair.peer_ends) {
    CHECK_THAT(reason, Catch::Contains("half frames of its certificate or token take more than"));
  }
  CHECK(std::ranges::count(pair.closed, pair.opened[0]) == 0);
  while_loop_runs(pair.loop, [&] { clients[0].send("x"); });
  CHECK(run_until(pair.loop, [&] { return largest == kMiB; }));
}

TEST_CASE("frames for peers that do not read are bounded over all of them, and the longest queue goes") {
  Pair pair;
  ServerOptions options;
  options.max_queued_bytes = 32 * kMiB;
  options.all_queued_bytes = 64 * kMiB;
  pair.serve(options);
  std::vector<RawClient> silent;
  while_loop_runs(pair.loop, [&] {
    for (int i = 0; i < 6; ++i) {
      silent.push_back(RawClient::tcp(pair.server->port()));
      silent.back().send(kUpgrade);
      static_cast<void>(silent.back().read_exactly(20));
    }
  });
  REQUIRE(run_until(pair.loop, [&] { return pair.opened.size() == 6; }));
  for (int round = 0; round < 30; ++round) {
    for (const PeerId peer : pair.opened) (void)pair.server->send(peer, std::string(kMiB, 'x'));
    CHECK(pair.server->taken().queues <= 64 * kMiB);
  }
  REQUIRE(run_until(pair.loop, [&] { return !pair.peer_ends.empty(); }));
  CHECK_THAT(pair.peer_ends[0], Catch::Contains("all agents' queues are full"));
  CHECK(pair.peer_ends.size() < 6);
}
