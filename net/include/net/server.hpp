#pragma once

// One TCP port that speaks HTTP/1.1 for people and scripts, and WebSocket (binary frames) for agents at one path;
// beyond loopback only under mutual TLS. All callbacks run on the loop's thread. Limits protect the daemon: header and
// body size, frame size and rate, idle time, number of connections, bytes queued towards a slow peer (then it is
// closed). When there are too many connections, or no descriptors, a new one takes the place of the one that has waited
// longest without a whole request, or as a WebSocket that was not introduced; where there is none the new one is
// closed. A WebSocket ends when the certificate expires that it was opened with. Errors of one peer never touch
// another.
//
// What all connections together may take of the daemon's memory is in accounts (base/account.hpp), by caller: who shows
// the same certificate, else the same token. Nobody can end the daemon by being many.

#include <string_view>
#include <vector>

#include "base/account.hpp"
#include "net/credentials.hpp"
#include "net/event_loop.hpp"
#include "net/rate.hpp"

namespace trimtab::net {

struct HttpRequest {
  std::string method;
  std::string path;                          // decoded, without the query
  std::map<std::string, std::string> query;  // decoded
  std::string body;                          // empty while it is asked whether the request is admitted
  std::string token = {};                    // of "Authorization: Bearer …"; never to be logged
  std::string address = {};                  // of the client, with its port
  std::optional<PeerIdentity> peer = {};     // by certificate; nothing without TLS
  bool upgrade = false;                      // it wants to become a WebSocket
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  // Set: the answer is not there yet, and the rest of this means nothing. It is called once, and calls `answer` once,
  // later and on the loop; or it forgets it, and the client is told that there is none.
  using Answer = std::function<void(HttpResponse)>;
  std::function<void(Answer answer)> later = {};
};

using PeerId = std::uint64_t;  // never reused within a process

// IP addresses, without ports; empty = not known.
struct PeerAddresses {
  std::string remote;
  std::string local;  // where it has reached this server
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0 = any free one
  std::string websocket_path = "/v1/agent";
  std::size_t max_body_bytes = 8U << 20;
  std::size_t max_frame_bytes = 8U << 20;
  std::size_t max_queued_bytes = 32U << 20;
  // Of a WebSocket that is not introduced() yet, where max_frame_bytes is more.
  std::size_t max_frame_bytes_of_unknown = 1U << 20;
  Rate max_rate = {};  // of each WebSocket
  std::size_t max_connections = 4096;
  // New ones a second; a second's worth may come at once, and what comes faster is taken later. 0 = no limit.
  std::uint32_t max_connection_rate = 0;
  // Bodies of requests under way, from their announcement until they are handled. One beyond it gets 503. Where a
  // single body may be larger, it fits.
  AccountLimits bodies{std::uint64_t{256} << 20, std::uint64_t{64} << 20};
  // Answers on their way. Where a new one has no room, the answers to that caller that have waited longest for their
  // reader give way, or those to whoever takes most. A single answer fits.
  AccountLimits answers{std::uint64_t{256} << 20, std::uint64_t{64} << 20};
  // Half frames beyond each one's first piece: of WebSockets that nobody introduced together, and of the others by
  // caller. Those that began first give way. Where a single frame may be larger, it fits.
  std::uint64_t unknown_half_frames = std::uint64_t{64} << 20;
  AccountLimits half_frames{std::uint64_t{512} << 20, std::uint64_t{128} << 20};
  // Frames that wait for all WebSockets together. Beyond it the one for which most waits is closed.
  std::uint64_t all_queued_bytes = std::uint64_t{512} << 20;
  // Of a connection that says nothing, of a request until it is whole, and of an answer until it is read.
  Nanoseconds idle_timeout = std::chrono::seconds(60);
  // A WebSocket ends that has not been introduced() so long after it was opened; 0 = none needs to be.
  Nanoseconds introduction_timeout{0};
  std::shared_ptr<Credentials> tls = nullptr;  // needed beyond loopback: then every client shows a certificate
};

// Whom the server has turned away by itself, and why.
struct Refusal {
  enum class Kind { kTls, kMalformed, kTooLarge, kSlow, kForeign, kFull };
  Kind kind = Kind::kMalformed;
  std::string address;
  std::string reason;
};
[[nodiscard]] std::string_view to_string(Refusal::Kind kind);

struct ServerHandlers {
  std::function<HttpResponse(const HttpRequest&)> http;  // must not throw; quick: it runs on the loop
  std::function<void(PeerId)> opened;
  std::function<void(PeerId, std::string_view)> message;  // unset: no request may become a WebSocket
  std::function<void(PeerId, const std::string& reason)> closed;
  // Asked as soon as a request's head is there, before anything of its body is read: a refusal, or nothing. Unset:
  // everybody is admitted.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> admit = {};
  std::function<void(const Refusal&)> refused = {};  // for the log; whoever reaches the port can cause it
  std::function<void(PeerId)> delayed = {};          // its frames come faster than they may, and are read later
  // How long a message that is there is to wait before it is handed over, when this is asked again. Nothing more of
  // this peer is read meanwhile. Unset: it does not wait.
  std::function<Nanoseconds(PeerId)> wait = {};
};

class Server final {
 public:
  // Binds and listens; the error of a port in use names the port and what to do. An address beyond loopback without TLS
  // is refused.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(EventLoop& loop, ServerOptions options,
                                                             ServerHandlers handlers);
  ~Server();
  [[nodiscard]] std::uint16_t port() const;
  // Queues a binary frame; false when the peer is gone.
  bool send(PeerId peer, std::string frame);
  // Whether so many bytes may be queued for the peer beside what waits for it, so that half of its queue, and half of
  // all queues together, stay free for what cannot wait. Always where nothing waits, and where the peer is gone: send()
  // says so. For a sender who has much for one peer: it asks again a little later, and the peer is not closed for it.
  [[nodiscard]] bool has_room(PeerId peer, std::size_t bytes) const;
  // What is queued is still sent, within ten seconds. Nothing more is read.
  void close(PeerId peer);
  // WebSockets that are open.
  [[nodiscard]] std::vector<PeerId> peers() const;
  // Why the certificate that the peer has shown is not accepted any more, where the authorities have been read again
  // since; empty: it still is.
  [[nodiscard]] std::string objection(PeerId peer);
  // The peer has said who it is, and the handlers are content: it is not ended any more for want of that.
  void introduced(PeerId peer);
  // By certificate; nothing without TLS, or when the peer is gone.
  [[nodiscard]] std::optional<PeerIdentity> identity(PeerId peer) const;
  // What connections take of their accounts.
  struct Taken {
    std::uint64_t bodies = 0;
    std::uint64_t answers = 0;
    std::uint64_t half_frames = 0;
    std::uint64_t queues = 0;
  };
  [[nodiscard]] Taken taken() const;
  // That it showed when it became a WebSocket, never to be logged; empty without one, or when the peer is gone.
  [[nodiscard]] std::string token(PeerId peer) const;
  // What has come from the peer so far, by the kernel's account: grows while a frame is on its way that nobody has read
  // yet. 0 when the peer is gone.
  [[nodiscard]] std::uint64_t received_bytes(PeerId peer) const;
  [[nodiscard]] PeerAddresses addresses(PeerId peer) const;
  // No new connections; closes those there are. `closed` is called for each WebSocket peer.
  void stop();

 private:
  struct Implementation;
  explicit Server(std::shared_ptr<Implementation> implementation);
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace trimtab::net
