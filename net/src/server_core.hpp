#pragma once

// What the connections of one Server share. Loop thread only.

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/server.hpp"

namespace trimtab::net {

// Since when a connection is of no use yet; nothing: it is.
using WaitingSince = std::optional<std::chrono::steady_clock::time_point>;

// One accepted connection while it speaks HTTP.
class HttpSession {
 public:
  virtual ~HttpSession() = default;
  virtual void abort() = 0;
  // For TLS, and a request that is whole; nothing while an answer is on its way.
  [[nodiscard]] virtual WaitingSince waiting_since() const = 0;
  [[nodiscard]] virtual const std::string& address() const = 0;
};

// One connection that has become a WebSocket.
class WebSocketPeer {
 public:
  virtual ~WebSocketPeer() = default;
  virtual bool send(std::string frame) = 0;
  // Sends what is queued, then closes.
  virtual void close() = 0;
  // Drops the connection now; no handler is called any more.
  virtual void abort() = 0;
  // It has said who it is.
  virtual void introduced() = 0;
  // Nothing once it is introduced, or where it need not be.
  [[nodiscard]] virtual WaitingSince waiting_since() const = 0;
  [[nodiscard]] virtual const std::string& address() const = 0;
  // Drops the connection now, and reports it as closed.
  virtual void give_way() = 0;
  [[nodiscard]] virtual const std::optional<PeerIdentity>& identity() const = 0;
  [[nodiscard]] virtual std::uint64_t received_bytes() = 0;
  [[nodiscard]] virtual PeerAddresses addresses() = 0;
};

struct ServerCore {
  ServerOptions options;
  ServerHandlers handlers;
  bool on_loopback = true;
  bool stopped = false;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, std::shared_ptr<HttpSession>> sessions;
  std::map<PeerId, std::shared_ptr<WebSocketPeer>> peers;

  [[nodiscard]] bool full() const { return sessions.size() + peers.size() >= options.max_connections; }

  // Ends the connection that has been waited for longest; false when every one of them is of use.
  bool make_room();

  void refused(Refusal::Kind kind, const std::string& address, const std::string& reason) const {
    if (handlers.refused) handlers.refused({kind, address, reason});
  }
  void peer_opened(PeerId id, std::shared_ptr<WebSocketPeer> peer) {
    peers.emplace(id, std::move(peer));
    if (handlers.opened) handlers.opened(id);
  }
  void peer_message(PeerId id, std::string_view frame) {
    if (!stopped && handlers.message) handlers.message(id, frame);
  }
  // `closed` is called once for each peer that was opened, whoever ended it.
  void peer_closed(PeerId id, const std::string& reason) {
    if (peers.erase(id) == 0) return;
    if (handlers.closed) handlers.closed(id, reason);
  }
};

}  // namespace trimtab::net
