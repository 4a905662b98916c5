#pragma once

// What the connections of one Server share. Loop thread only.

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "net/server.hpp"
#include "stream.hpp"
#include "trust/tls.hpp"

namespace trimtab::net {

// Since when a connection is of no use yet; nothing: it is.
using WaitingSince = std::optional<std::chrono::steady_clock::time_point>;

// One accepted connection while it speaks HTTP.
class HttpSession {
 public:
  explicit HttpSession(std::string of) : address(std::move(of)) {}
  virtual ~HttpSession() = default;
  virtual void abort() = 0;
  // Its answer is not read, and others need the room.
  virtual void give_way() = 0;
  // What its answer takes while that is on its way; nothing: none is.
  [[nodiscard]] virtual const Charge* answer() const = 0;
  [[nodiscard]] virtual std::chrono::steady_clock::time_point answering_since() const = 0;
  // For TLS, and a request that is whole; nothing while an answer is on its way.
  [[nodiscard]] virtual WaitingSince waiting_since() const = 0;

  const std::string address;  // the client's
};

struct PeerOrigin {
  std::string address;
  std::optional<PeerIdentity> identity;                     // by certificate
  std::string token;                                        // as the request showed it; never to be logged
  std::shared_ptr<Credentials::Contexts> accepted_by = {};  // who has judged its certificate last; nothing: no TLS
};

// One connection that has become a WebSocket.
class WebSocketPeer {
 public:
  explicit WebSocketPeer(PeerOrigin of) : origin(std::move(of)) {}
  virtual ~WebSocketPeer() = default;
  virtual bool send(std::string frame) = 0;
  // Sends what is queued, then closes; at once where that takes too long.
  virtual void close() = 0;
  // Why its certificate is not accepted any more; empty: it is.
  [[nodiscard]] virtual std::string objection() = 0;
  // Drops the connection now; no handler is called any more.
  virtual void abort() = 0;
  // It has said who it is.
  virtual void introduced() = 0;
  // Nothing once it is introduced, or where it need not be.
  [[nodiscard]] virtual WaitingSince waiting_since() const = 0;
  // What its half frame takes beyond a first piece; nothing: it has none.
  [[nodiscard]] virtual const Charge* half_frame() const = 0;
  [[nodiscard]] virtual std::chrono::steady_clock::time_point half_frame_since() const = 0;
  // Drops the connection now, and reports it as closed.
  virtual void give_way(const std::string& reason) = 0;
  // What waits to be sent to it; 0 once it is being closed for that.
  [[nodiscard]] virtual std::size_t queued_bytes() const = 0;
  // Drops the connection, and reports it as closed a little later.
  virtual void drop(const std::string& reason) = 0;
  [[nodiscard]] virtual std::uint64_t received_bytes() = 0;
  [[nodiscard]] virtual PeerAddresses addresses() = 0;

  const PeerOrigin origin;
};

// By whose name connections are charged.
[[nodiscard]] inline const std::string& caller_of(const std::optional<PeerIdentity>& peer, const std::string& token) {
  return peer ? peer->name : token;
}

// Where a single one may be larger, it fits.
[[nodiscard]] AccountLimits widened(AccountLimits limits, std::uint64_t single);

struct ServerCore {
  explicit ServerCore(ServerOptions of);

  const ServerOptions options;
  ServerHandlers handlers;
  bool on_loopback = true;
  bool stopped = false;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, std::shared_ptr<HttpSession>> sessions;
  std::map<PeerId, std::shared_ptr<WebSocketPeer>> peers;
  Account bodies;
  Account answers;
  Account unknown_half_frames;  // all of one owner
  Account half_frames;
  std::uint64_t queued_bytes = 0;

  [[nodiscard]] bool full() const { return sessions.size() + peers.size() >= options.max_connections; }

  // Ends the connection that has been waited for longest; false when every one of them is of use.
  bool make_room();
  // A half frame has grown: beyond what all may take, and all of one caller, those that began first give way. Calls
  // `closed`.
  void bound_half_frames();
  // An answer is about to be sent to this caller: others that are not read give way to it.
  void make_room_for_answer(const std::string& caller, std::uint64_t bytes);
  // Beside so many bytes that wait for a peer already (Server::has_room). A peer for which nothing waits has room
  // however full the other queues are: else those who do not read could keep everything from those who do.
  [[nodiscard]] bool has_room(std::size_t waiting, std::size_t bytes) const;
  [[nodiscard]] std::uint64_t most_queued() const;  // for all peers together
  // A frame was queued: beyond what all queues may take, the longest goes.
  void bound_queues();

  void refused(Refusal::Kind kind, const std::string& address, const std::string& reason) const {
    if (handlers.refused) handlers.refused({kind, address, reason});
  }
  void peer_opened(PeerId id, std::shared_ptr<WebSocketPeer> peer) {
    peers.emplace(id, std::move(peer));
    if (handlers.opened) handlers.opened(id);
  }
  [[nodiscard]] Nanoseconds wait_of(PeerId id) const {
    return !stopped && handlers.wait ? handlers.wait(id) : Nanoseconds(0);
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

// HTTP/1.1 on one accepted connection, under TLS where the server has credentials, until it closes or becomes a
// WebSocket. Registers itself in `core.sessions` and starts to read. `address` is the client's.
void start_http_session(const std::shared_ptr<ServerCore>& core, TcpSocket socket, std::string address);

// The WebSocket side of a Server: one peer's frames in and out, with bounded queues.
using UpgradeRequest = boost::beast::http::request<boost::beast::http::string_body>;

// Answers the upgrade request; the peer is reported as opened when the handshake is done.
void accept_websocket(const std::shared_ptr<ServerCore>& core, Stream stream, UpgradeRequest request,
                      PeerOrigin origin);

}  // namespace trimtab::net
