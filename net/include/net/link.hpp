#pragma once

// The agent's outgoing WebSocket connection to the coordinator. Connects, reconnects with jittered exponential backoff
// (0.1 s to 5 s), pings, and notices a silent peer. Name, certificates and token are those of the moment of each
// attempt; a name's addresses are tried in turn, 5 s each, TLS and WebSocket may take 10 s each. It ends when the
// server's certificate expires. All callbacks run on the loop's thread; nothing blocks.

#include <string_view>

#include "base/random.hpp"
#include "net/credentials.hpp"
#include "net/event_loop.hpp"
#include "net/listener_rule.hpp"
#include "net/rate.hpp"

namespace trimtab::net {

struct LinkOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7420;
  std::string path = "/v1/agent";
  std::size_t max_frame_bytes = 8U << 20;
  std::size_t max_queued_bytes = 16U << 20;
  Rate max_rate = {};
  Nanoseconds silence_limit = std::chrono::seconds(15);  // nothing comes, and nothing that waits is taken
  std::shared_ptr<Credentials> tls = nullptr;  // the server must have a certificate for `host`; nothing: no TLS
  ListenerRule listener = {};                  // without TLS, on this machine itself
  std::function<std::string()> token = {};  // asked at each attempt, shown as "Authorization: Bearer …"; empty: none
};

struct LinkHandlers {
  std::function<void()> opened;
  std::function<void(std::string_view)> message;
  std::function<void(const std::string& reason)> closed;  // also after a failed attempt
};

class Link final {
 public:
  Link(EventLoop& loop, LinkOptions options, LinkHandlers handlers, std::uint64_t seed);
  ~Link();
  void start();
  void stop();
  [[nodiscard]] bool open() const;
  // False when not open or the queue is full: the caller keeps what it must not lose in its spool.
  bool send(std::string frame);
  // What waits to be sent; 0 when not open.
  [[nodiscard]] std::size_t queued_bytes() const;
  // Credentials have been read again: ends the connection where the server's certificate is not accepted any more.
  void judge_again();
  // Ends the connection because of what came over it, and tries again later. `closed` is called.
  void drop(const std::string& reason);

  struct Counters {
    std::uint64_t refused = 0;    // frames that found the queue full
    std::uint64_t delayed = 0;    // times that frames came faster than they may
    std::uint64_t too_large = 0;  // frames beyond the limit: the connection ended
  };
  [[nodiscard]] const Counters& counters() const;

 private:
  struct Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace trimtab::net
