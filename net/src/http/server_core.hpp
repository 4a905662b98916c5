#pragma once

// What the connections of one Server share. Loop thread only.

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include "net/server.hpp"
#include "stream.hpp"

namespace trimtab::net {

// Since when a connection is of no use yet; nothing: it is.
using WaitingSince = std::optional<std::chrono::steady_clock::time_point>;

// One accepted connection while it speaks HTTP.
class HttpSession {
 public:
  explicit HttpSession(std::string of) : address(std::move(of)) {}
  virtual ~HttpSession() = default;
  virtual void abort() = 0;
  // For TLS, and a request that is whole; nothing while an answer is on its way.
  [[nodiscard]] virtual WaitingSince waiting_since() const = 0;

  const std::string address;  // the client's
};

struct PeerOrigin {
  std::string address;
  std::optional<PeerIdentity> identity;  // by certificate
  std::string token;                     // as the request showed it; never to be logged
};

// One connection that has become a WebSocket.
class WebSocketPeer {
 public:
  explicit WebSocketPeer(PeerOrigin of) : origin(std::move(of)) {}
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
  // What it takes of the room for half frames: 0 once it is introduced, or where it need not be.
  [[nodiscard]] virtual std::size_t half_frame_bytes() const = 0;
  // Drops the connection now, and reports it as closed.
  virtual void give_way(const std::string& reason) = 0;
  [[nodiscard]] virtual std::uint64_t received_bytes() = 0;
  [[nodiscard]] virtual PeerAddresses addresses() = 0;

  const PeerOrigin origin;
};

// What the bodies of all requests under way may take together, from their announcement until they are handled, and what
// those of one caller may: max_connections bodies of max_body_bytes would be more memory than a daemon has. Where a
// single body may be larger, it fits.
inline constexpr std::size_t kMostBodyBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMostBodyBytesOfOne = std::size_t{64} << 20;

// What half frames of WebSockets that are not introduced yet may take together beyond each one's first piece: 4,096 of
// max_frame_bytes_of_unknown would be 4 GiB. Where a single frame may be larger, it fits.
inline constexpr std::size_t kMostHalfFrameBytes = std::size_t{64} << 20;

struct ServerCore {
  ServerOptions options;
  ServerHandlers handlers;
  bool on_loopback = true;
  bool stopped = false;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, std::shared_ptr<HttpSession>> sessions;
  std::map<PeerId, std::shared_ptr<WebSocketPeer>> peers;
  std::map<std::string, std::size_t> body_bytes;  // under way, by caller
  std::size_t all_body_bytes = 0;
  std::size_t half_frame_bytes = 0;

  [[nodiscard]] bool full() const { return sessions.size() + peers.size() >= options.max_connections; }

  // Ends the connection that has been waited for longest; false when every one of them is of use.
  bool make_room();
  // A half frame has grown: beyond what all may take, those that have been waited for longest give way. Calls `closed`.
  void bound_half_frames();

  // Whether a body of `bytes` has room beside those under way.
  [[nodiscard]] bool has_room(const std::string& caller, std::size_t bytes) const {
    const auto of_caller = body_bytes.find(caller);
    const std::size_t own = of_caller == body_bytes.end() ? 0 : of_caller->second;
    return own + bytes <= std::max(kMostBodyBytesOfOne, options.max_body_bytes) &&
           all_body_bytes + bytes <= std::max(kMostBodyBytes, options.max_body_bytes);
  }

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

// Room for one body, given back with this.
class BodyShare {
 public:
  BodyShare(std::shared_ptr<ServerCore> core, std::string caller, std::size_t bytes)
      : core_(std::move(core)), caller_(std::move(caller)), bytes_(bytes) {
    core_->all_body_bytes += bytes_;
    core_->body_bytes[caller_] += bytes_;
  }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  ~BodyShare() {
    core_->all_body_bytes -= bytes_;
    const auto own = core_->body_bytes.find(caller_);
    own->second -= bytes_;
    if (own->second == 0) core_->body_bytes.erase(own);
  }

 private:
  std::shared_ptr<ServerCore> core_;
  std::string caller_;
  std::size_t bytes_;
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
