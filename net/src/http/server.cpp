#include "net/server.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/check.hpp"
#include "context.hpp"
#include "http/server_core.hpp"
#include "net/host_text.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// How long to wait when there are no descriptors left to accept with.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

Error cannot_listen(const tcp::endpoint& endpoint, error_code failure) {
  const std::string where = endpoint.address().to_string() + ":" + std::to_string(endpoint.port());
  if (failure == asio::error::address_in_use) {
    return unavailable("couldn't listen on " + where + ": port " + std::to_string(endpoint.port()) +
                       " is in use by another process. Stop that one, or choose another port.");
  }
  return unavailable("couldn't listen on " + where + ": " + failure.message());
}

}  // namespace

std::string_view to_string(Refusal::Kind kind) {
  constexpr std::string_view kNames[] = {"tls", "malformed", "too_large", "slow", "foreign", "full"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct Server::Implementation : std::enable_shared_from_this<Server::Implementation> {
  Implementation(asio::io_context& io, ServerOptions options)
      : io_(io),
        acceptor_(io),
        pause_(io),
        rate_({options.max_connection_rate, 0}),
        core_(std::make_shared<ServerCore>(std::move(options))) {}

  Status listen(const tcp::endpoint& endpoint) {
    error_code failure;
    acceptor_.open(endpoint.protocol(), failure);
    if (!failure) acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
    if (!failure) acceptor_.bind(endpoint, failure);
    if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
    if (failure) return cannot_listen(endpoint, failure);
    port_ = acceptor_.local_endpoint().port();
    return {};
  }

  void accept() {
    acceptor_.async_accept(io_.get_executor(), [self = shared_from_this()](error_code failure, TcpSocket socket) {
      self->accepted(failure, std::move(socket));
    });
  }

  void accepted(error_code failure, TcpSocket socket) {
    if (core_->stopped) return;
    if (failure == asio::error::no_descriptors || failure == asio::error::no_buffer_space ||
        failure == asio::error::no_memory) {
      // The one that gives way has given its descriptor back when the loop comes to the pause's end.
      (void)core_->make_room();
      return accept_after(kAcceptPause);
    }
    if (!failure) start(std::move(socket));
    const Nanoseconds wait = rate_.take(std::chrono::steady_clock::now().time_since_epoch(), 0);
    if (wait > Nanoseconds(0)) return accept_after(wait);
    accept();
  }

  // Until then they wait in the kernel's queue.
  void accept_after(Nanoseconds wait) {
    pause_.expires_after(wait);
    pause_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled && !self->core_->stopped) self->accept();
    });
  }

  void start(TcpSocket socket) {
    error_code gone;
    const auto endpoint = socket.remote_endpoint(gone);
    if (gone) return;
    const std::string address = authority(endpoint.address().to_string(), endpoint.port());
    if (core_->full() && !core_->make_room()) {
      core_->refused(Refusal::Kind::kFull, address,
                     "there are " + std::to_string(core_->options.max_connections) + " connections already");
      return;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    start_http_session(core_, std::move(socket), address);
  }

  void stop() {
    if (core_->stopped) return;
    core_->stopped = true;
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    const auto sessions = std::exchange(core_->sessions, {});
    for (const auto& [id, session] : sessions) session->abort();
    const auto peers = std::exchange(core_->peers, {});
    for (const auto& [id, peer] : peers) {
      peer->abort();
      if (core_->handlers.closed) core_->handlers.closed(id, "the server stops");
    }
  }

  asio::io_context& io_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  RateLimit rate_;  // of new connections
  std::shared_ptr<ServerCore> core_;
  std::uint16_t port_ = 0;
};

Result<std::unique_ptr<Server>> Server::start(EventLoop& loop, ServerOptions options, ServerHandlers handlers) {
  error_code failure;
  const std::string text = options.address == "localhost" ? "127.0.0.1" : options.address;
  const auto address = asio::ip::make_address(text, failure);
  if (failure) {
    return bad_input("the address to listen on must be an IP address such as 127.0.0.1 or ::, but it is '" +
                     options.address + "'");
  }
  if (!address.is_loopback() && !options.tls) {
    return bad_input("listening on " + options.address +
                     " needs TLS, because others can reach it: give it certificates ('trimtab cert'), or listen on "
                     "127.0.0.1");
  }
  auto implementation = std::make_shared<Implementation>(loop.context().io, std::move(options));
  implementation->core_->handlers = std::move(handlers);
  implementation->core_->on_loopback = address.is_loopback();
  TRIMTAB_TRY_STATUS(implementation->listen({address, implementation->core_->options.port}));
  implementation->accept();
  return std::unique_ptr<Server>(new Server(std::move(implementation)));
}

Server::Server(std::shared_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}

Server::~Server() {
  implementation_->core_->handlers = {};
  implementation_->stop();
}

std::uint16_t Server::port() const {
  return implementation_->port_;
}

bool Server::send(PeerId peer, std::string frame) {
  const auto found = implementation_->core_->peers.find(peer);
  return found != implementation_->core_->peers.end() && found->second->send(std::move(frame));
}

bool Server::has_room(PeerId peer, std::size_t bytes) const {
  const ServerCore& core = *implementation_->core_;
  const auto found = core.peers.find(peer);
  return found == core.peers.end() || core.has_room(found->second->queued_bytes(), bytes);
}

void Server::close(PeerId peer) {
  const auto found = implementation_->core_->peers.find(peer);
  if (found != implementation_->core_->peers.end()) found->second->close();
}

std::vector<PeerId> Server::peers() const {
  std::vector<PeerId> open;
  for (const auto& [id, peer] : implementation_->core_->peers) open.push_back(id);
  return open;
}

std::string Server::objection(PeerId peer) {
  const auto found = implementation_->core_->peers.find(peer);
  return found == implementation_->core_->peers.end() ? "" : found->second->objection();
}

void Server::introduced(PeerId peer) {
  const auto found = implementation_->core_->peers.find(peer);
  if (found != implementation_->core_->peers.end()) found->second->introduced();
}

std::optional<PeerIdentity> Server::identity(PeerId peer) const {
  const auto found = implementation_->core_->peers.find(peer);
  return found == implementation_->core_->peers.end() ? std::nullopt : found->second->origin.identity;
}

std::string Server::token(PeerId peer) const {
  const auto found = implementation_->core_->peers.find(peer);
  return found == implementation_->core_->peers.end() ? "" : found->second->origin.token;
}

std::uint64_t Server::received_bytes(PeerId peer) const {
  const auto found = implementation_->core_->peers.find(peer);
  return found == implementation_->core_->peers.end() ? 0 : found->second->received_bytes();
}

PeerAddresses Server::addresses(PeerId peer) const {
  const auto found = implementation_->core_->peers.find(peer);
  return found == implementation_->core_->peers.end() ? PeerAddresses() : found->second->addresses();
}

Server::Taken Server::taken() const {
  const ServerCore& core = *implementation_->core_;
  return {core.bodies.used(), core.answers.used(), core.unknown_half_frames.used() + core.half_frames.used(),
          core.queued_bytes};
}

void Server::stop() {
  implementation_->stop();
}

}  // namespace trimtab::net
