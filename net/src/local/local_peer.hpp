#pragma once

// One process on the agent's Unix socket: frames in with their descriptors, frames out through a bounded queue. It has
// a time for its first whole frame, and may be silent for as long as it likes from then on. Loop thread only.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "local/local_frames.hpp"
#include "rate_limit.hpp"

namespace trimtab::net {

// What frames that have not come to their end take together, of all connections.
struct HalfFrames {
  std::size_t most = 0;
  std::size_t bytes = 0;
};

class LocalPeer final : public std::enable_shared_from_this<LocalPeer> {
 public:
  static constexpr std::size_t kMaxQueuedBytes = 8U << 20;

  struct Handlers {
    std::function<void(std::string_view json, int descriptor)> frame;
    std::function<void(const std::string& reason)> ended;        // once, unless abort() came first
    std::function<void()> delayed;                               // its frames come too fast
    std::function<void(const std::string& reason)> turned_away;  // before `ended`: it is beyond a limit
  };

  // Takes over `descriptor`, a connected non-blocking socket.
  LocalPeer(boost::asio::io_context& io, int descriptor, Handlers handlers, const Rate& max_rate,
            std::shared_ptr<HalfFrames> half_frames);
  ~LocalPeer();
  LocalPeer(const LocalPeer&) = delete;
  LocalPeer& operator=(const LocalPeer&) = delete;

  // `introduction`: how long it may take for its first frame.
  void start(Nanoseconds introduction);
  bool send(std::string_view json);
  // Ends the connection; `ended` comes later, on the loop.
  void close(std::string reason);
  // Ends the connection without a word to the handlers.
  void abort();

 private:
  enum class Read { kAgain, kNothingYet, kEnded };

  void wait_to_read();
  void read_on();
  void read_later();
  void readable();
  Read receive();
  void keep_descriptors(const struct msghdr& message);
  void deliver();
  void hold(std::size_t bytes);
  void turn_away(const std::string& reason);
  void wait_to_write();
  bool write_some();
  void end(const std::string& reason);
  void drop_descriptor();

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  boost::asio::steady_timer introduction_;
  Handlers handlers_;
  LocalFrameCutter cutter_;
  RateLimit rate_;
  Nanoseconds wait_{0};  // before more is read
  int received_descriptor_ = -1;
  std::string outgoing_;
  bool writing_ = false;
  std::shared_ptr<HalfFrames> half_frames_;
  std::size_t held_ = 0;  // of those
  bool introduced_ = false;
  bool closing_ = false;
  bool ended_ = false;
};

}  // namespace trimtab::net
