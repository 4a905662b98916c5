#include "net/local_server.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <map>
#include <utility>

#include "context.hpp"
#include "local/local_peer.hpp"
#include "local/socket_file.hpp"
#include "local/user_namespace.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

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
