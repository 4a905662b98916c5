#pragma once

// A server and a link to it in one loop, and WebSockets that are opened by hand.

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loopback.hpp"
#include "net/link.hpp"
#include "net/server.hpp"

namespace trimtab::net {

// A server that echoes and a link to it, with what happened.
struct Pair {
  EventLoop loop;
  std::unique_ptr<Server> server;
  std::unique_ptr<Link> link;
  std::vector<PeerId> opened;
  std::vector<PeerId> closed;
  std::vector<std::string> peer_ends;  // likewise: why
  std::vector<Refusal> refusals;
  int delays = 0;
  int link_opened = 0;
  std::vector<std::string> received;
  std::vector<std::string> link_ends;
  std::function<void(PeerId, std::string_view)> on_message = [this](PeerId peer, std::string_view frame) {
    server->send(peer, "echo " + std::string(frame));
  };

  std::function<Nanoseconds(PeerId)> wait;

  void serve(ServerOptions options = {}) {
    ServerHandlers handlers{{},
                            [this](PeerId peer) { opened.push_back(peer); },
                            [this](PeerId peer, std::string_view frame) { on_message(peer, frame); },
                            [this](PeerId peer, const std::string& reason) {
                              closed.push_back(peer);
                              peer_ends.push_back(reason);
                            }};
    handlers.refused = [this](const Refusal& refusal) { refusals.push_back(refusal); };
    handlers.delayed = [this](PeerId) { ++delays; };
    handlers.wait = [this](PeerId peer) { return wait ? wait(peer) : Nanoseconds(0); };
    auto started = Server::start(loop, std::move(options), std::move(handlers));
    REQUIRE(started.ok());
    server = std::move(started).value();
  }

  void connect(LinkOptions options = {}) {
    if (server) options.port = server->port();
    link = std::make_unique<Link>(
        loop, std::move(options),
        LinkHandlers{[this] { ++link_opened; }, [this](std::string_view frame) { received.emplace_back(frame); },
                     [this](const std::string& reason) { link_ends.push_back(reason); }},
        1);
    link->start();
  }
};

inline const std::string kUpgrade =
    "GET /v1/agent HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

// Opens a WebSocket by hand, sends `bytes` after the handshake and waits for the end.
inline void after_upgrade(Pair& pair, const std::string& bytes) {
  while_loop_runs(pair.loop, [&] {
    const auto client = RawClient::tcp(pair.server->port());
    client.send(kUpgrade);
    static_cast<void>(client.read_exactly(20));
    client.send(bytes);
    static_cast<void>(client.read_all());
  });
}

}  // namespace trimtab::net
