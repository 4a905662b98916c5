#include "net/local_server.hpp"

#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>

#include <cerrno>

#include "base/check.hpp"
#include "context.hpp"
#include "local/local_frames.hpp"
#include "local/socket_file.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kReadsPerTurn = 16;  // Then the others on the loop have their turn.
constexpr std::size_t kMaxDescriptorsPerMessage = 4;

// What frames that have not come to their end take together, of all connections.
struct HalfFrames {
  std::size_t most = 0;
  std::size_t bytes = 0;
};

// One process on the agent's Unix socket: frames in with their descriptors, frames out through a bounded queue. It has
// a time for its first whole frame, and may be silent for as long as it likes from then on. Loop thread only.
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
  LocalPeer(asio::io_context& io, int descriptor, Handlers handlers, const Rate& max_rate,
            std::shared_ptr<HalfFrames> half_frames)
      : io_(io),
        socket_(io, descriptor),
        pause_(io),
        introduction_(io),
        handlers_(std::move(handlers)),
        rate_(max_rate),
        half_frames_(std::move(half_frames)) {}
  ~LocalPeer() {
    hold(0);
    drop_descriptor();
  }
  LocalPeer(const LocalPeer&) = delete;
  LocalPeer& operator=(const LocalPeer&) = delete;

  // `introduction`: how long it may take for its first frame.
  void start(Nanoseconds introduction) {
    wait_to_read();
    introduction_.expires_after(introduction);
    introduction_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled && !self->introduced_) self->turn_away("it did not say a whole frame in time");
    });
  }
  bool send(std::string_view json) {
    if (ended_ || closing_) return false;
    if (outgoing_.size() + json.size() > kMaxQueuedBytes) {
      close("it does not read: " + std::to_string(outgoing_.size()) + " bytes wait for it");
      return false;
    }
    outgoing_ += frame_for(json);
    if (!writing_ && !write_some()) return false;
    return true;
  }
  // Ends the connection; `ended` comes later, on the loop.
  void close(std::string reason) {
    if (ended_ || closing_) return;
    closing_ = true;
    asio::post(io_, [self = shared_from_this(), reason = std::move(reason)] { self->end(reason); });
  }
  // Ends the connection without a word to the handlers.
  void abort() {
    ended_ = true;
    pause_.cancel();
    introduction_.cancel();
    hold(0);
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  enum class Read { kAgain, kNothingYet, kEnded };

  void wait_to_read() {
    socket_.async_wait(asio::posix::descriptor_base::wait_read, [self = shared_from_this()](error_code failure) {
      if (!failure && !self->ended_) self->readable();
    });
  }
  void read_on() { wait_.count() > 0 ? read_later() : wait_to_read(); }
  void read_later() {
    handlers_.delayed();
    pause_.expires_after(std::exchange(wait_, Nanoseconds(0)));
    pause_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (cancelled || self->ended_) return;
      self->deliver();
      if (!self->ended_) self->read_on();
    });
  }
  void readable() {
    for (int turn = 0; turn < kReadsPerTurn; ++turn) {
      const Read read = receive();
      if (read == Read::kEnded || ended_) return;
      if (read == Read::kNothingYet || wait_.count() > 0) break;
    }
    read_on();
  }
  Read receive() {
    static thread_local std::array<char, kReadBytes> bytes;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptorsPerMessage)> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Read::kNothingYet;
    if (count < 0) {
      end(std::strerror(errno));
      return Read::kEnded;
    }
    keep_descriptors(message);
    if (count == 0) {
      end(cutter_.holds_a_part() ? "closed by the process in the middle of a frame" : "closed by the process");
      return Read::kEnded;
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) close("it sent too many descriptors at once");
    cutter_.add({bytes.data(), static_cast<std::size_t>(count)});
    deliver();
    if (ended_) return Read::kEnded;
    if (half_frames_->bytes <= half_frames_->most || held_ == 0) return Read::kAgain;
    turn_away("frames of all processes that are not whole take more than " + std::to_string(half_frames_->most) +
              " bytes, and its own is among them");
    return Read::kEnded;
  }
  void keep_descriptors(const msghdr& message) {
    for (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(header))) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
        if (received_descriptor_ >= 0) {
          ::close(descriptor);
          close("a frame carries one descriptor at most");
        } else {
          received_descriptor_ = descriptor;
        }
      }
    }
  }
  // The kernel ends a read behind the bytes that carried a descriptor, so it belongs to the frame of the last byte.
  void deliver() {
    while (!ended_ && !closing_ && wait_.count() == 0) {
      auto frame = cutter_.next();
      if (!frame) break;
      if (!std::exchange(introduced_, true)) introduction_.cancel();
      wait_ = rate_.take(std::chrono::steady_clock::now().time_since_epoch(), frame->json.size());
      handlers_.frame(frame->json, frame->ends_the_bytes ? std::exchange(received_descriptor_, -1) : -1);
    }
    if (!cutter_.broken().empty()) close(cutter_.broken());
    if (!ended_ && !closing_) hold(cutter_.held_bytes());
  }
  void hold(std::size_t bytes) {
    half_frames_->bytes += bytes - held_;
    held_ = bytes;
  }
  // What it held is others' at once.
  void turn_away(const std::string& reason) {
    if (ended_ || closing_) return;
    hold(0);
    handlers_.turned_away(reason);
    close(reason);
  }
  void wait_to_write() {
    writing_ = true;
    socket_.async_wait(asio::posix::descriptor_base::wait_write, [self = shared_from_this()](error_code failure) {
      self->writing_ = false;
      if (!failure && !self->ended_) self->write_some();
    });
  }
  bool write_some() {
    const ssize_t count =
        ::send(socket_.native_handle(), outgoing_.data(), outgoing_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      close(std::strerror(errno));
      return false;
    }
    if (count > 0) outgoing_.erase(0, static_cast<std::size_t>(count));
    if (!outgoing_.empty()) wait_to_write();
    return true;
  }
  void end(const std::string& reason) {
    if (ended_) return;
    abort();
    handlers_.ended(reason);
  }
  void drop_descriptor() {
    if (received_descriptor_ >= 0) ::close(std::exchange(received_descriptor_, -1));
  }

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

constexpr std::size_t kMaxPeers = 1024;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

struct LocalServer::Implementation : std::enable_shared_from_this<LocalServer::Implementation> {
  Implementation(asio::io_context& io_context, SocketFile socket_file, LocalServerHandlers server_handlers,
                 const Rate& rate, const LocalLimits& server_limits)
      : io(io_context),
        file(std::move(socket_file)),
        listener(io_context, file.descriptor()),
        pause(io_context),
        handlers(std::move(server_handlers)),
        max_rate(rate),
        limits(server_limits),
        half_frames(std::make_shared<HalfFrames>(HalfFrames{server_limits.half_frame_bytes, 0})) {}
  ~Implementation() {
    if (!stopped) listener.release();
  }

  void accept() {
    listener.async_wait(asio::posix::descriptor_base::wait_read, [self = shared_from_this()](error_code failure) {
      if (failure || self->stopped) return;
      if (self->accept_waiting()) return self->accept();
      self->pause.expires_after(kAcceptPause);
      self->pause.async_wait([self](error_code cancelled) {
        if (!cancelled && !self->stopped) self->accept();
      });
    });
  }

  // False when the process has no descriptors left: then the listener would stay readable for ever.
  bool accept_waiting() {
    while (!stopped) {
      const int descriptor = ::accept4(file.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (descriptor >= 0) {
        admit(descriptor);
      } else if (errno != EINTR && errno != ECONNABORTED) {
        return errno == EAGAIN;
      }
    }
    return true;
  }

  // A pid of 0 is that of any process outside the agent's container.
  [[nodiscard]] bool has_too_many(pid_t pid) const {
    if (pid == 0) return false;
    const auto own = std::ranges::count_if(peers, [pid](const auto& one) { return one.second.pid == pid; });
    return std::cmp_greater_equal(own, limits.connections_of_process);
  }

  [[nodiscard]] std::string objection(bool known, const ucred& credentials) const {
    const uid_t uid = credentials.uid;
    if (!known) return "the kernel does not say who it is";
    if (!users.knows(uid)) {
      return "its user has no number in the agent's container (user namespace), where it is shown as " +
             std::to_string(uid) + "; map it there, or run the agent in the namespace of its processes";
    }
    if (!peer_admitted(uid, ::geteuid())) {
      return "user " + std::to_string(uid) + " may not speak to the agent of user " + std::to_string(::geteuid());
    }
    if (has_too_many(credentials.pid)) {
      return "it has " + std::to_string(limits.connections_of_process) +
             " connections already, and a rank needs one and one for its ring";
    }
    return peers.size() < kMaxPeers ? "" : "there are " + std::to_string(kMaxPeers) + " connections already";
  }

  void admit(int descriptor) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    const bool known = ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0;
    if (const std::string why = objection(known, credentials); !why.empty()) {
      ::close(descriptor);
      if (handlers.refused) handlers.refused(credentials.pid, credentials.uid, why);
      return;
    }
    const LocalPeerId id = ++last_id;
    const std::weak_ptr<Implementation> weak = weak_from_this();
    auto peer = std::make_shared<LocalPeer>(
        io, descriptor,
        LocalPeer::Handlers{[weak, id](std::string_view json, int received) { deliver(weak, id, json, received); },
                            [weak, id](const std::string& reason) { ended(weak, id, reason); },
                            [weak, id] { delayed(weak, id); },
                            [weak, credentials](const std::string& reason) { turned_away(weak, credentials, reason); }},
        max_rate, half_frames);
    peers.emplace(id, Peer{peer, credentials.pid});
    if (handlers.opened) handlers.opened(id, credentials.pid, credentials.uid);
    peer->start(limits.introduction);
  }

  static void deliver(const std::weak_ptr<Implementation>& weak, LocalPeerId id, std::string_view json, int received) {
    const auto self = weak.lock();
    if (self && !self->stopped && self->handlers.frame) return self->handlers.frame(id, json, received);
    if (received >= 0) ::close(received);
  }

  static void ended(const std::weak_ptr<Implementation>& weak, LocalPeerId id, const std::string& reason) {
    const auto self = weak.lock();
    if (!self || self->peers.erase(id) == 0) return;
    if (self->handlers.closed) self->handlers.closed(id, reason);
  }

  static void delayed(const std::weak_ptr<Implementation>& weak, LocalPeerId id) {
    const auto self = weak.lock();
    if (self && !self->stopped && self->handlers.delayed) self->handlers.delayed(id);
  }

  static void turned_away(const std::weak_ptr<Implementation>& weak, const ucred& who, const std::string& reason) {
    const auto self = weak.lock();
    if (self && !self->stopped && self->handlers.refused) self->handlers.refused(who.pid, who.uid, reason);
  }

  void stop() {
    if (stopped) return;
    stopped = true;
    pause.cancel();
    listener.release();
    file.close();
    const auto gone = std::exchange(peers, {});
    for (const auto& [id, peer] : gone) {
      peer.connection->abort();
      if (handlers.closed) handlers.closed(id, "the agent stops");
    }
  }

  asio::io_context& io;
  SocketFile file;
  asio::posix::stream_descriptor listener;
  asio::steady_timer pause;
  LocalServerHandlers handlers;
  Rate max_rate;
  LocalLimits limits;
  std::shared_ptr<HalfFrames> half_frames;
  UserNamespace users = own_user_namespace();
  LocalPeerId last_id = 0;
  struct Peer {
    std::shared_ptr<LocalPeer> connection;
    pid_t pid = 0;
  };
  std::map<LocalPeerId, Peer> peers;
  bool stopped = false;
};

Result<std::unique_ptr<LocalServer>> LocalServer::start(EventLoop& loop, const std::string& path,
                                                        LocalServerHandlers handlers, const Rate& max_rate,
                                                        const LocalLimits& limits) {
  TRIMTAB_TRY(auto file, SocketFile::listen(path));
  auto implementation =
      std::make_shared<Implementation>(loop.context().io, std::move(file), std::move(handlers), max_rate, limits);
  implementation->accept();
  return std::unique_ptr<LocalServer>(new LocalServer(std::move(implementation)));
}

LocalServer::LocalServer(std::shared_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}

LocalServer::~LocalServer() {
  implementation_->handlers = {};
  implementation_->stop();
}

bool LocalServer::send(LocalPeerId peer, std::string_view json) {
  const auto found = implementation_->peers.find(peer);
  if (found == implementation_->peers.end()) return false;
  const auto kept = found->second.connection;
  return kept->send(json);
}

void LocalServer::close(LocalPeerId peer) {
  const auto found = implementation_->peers.find(peer);
  if (found != implementation_->peers.end()) found->second.connection->close("closed by the agent");
}

void LocalServer::stop() {
  implementation_->stop();
}

}  // namespace trimtab::net
