#include "net/link.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/system_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>

#include "backoff.hpp"
#include "context.hpp"
#include "net/host_text.hpp"
#include "silence_watch.hpp"
#include "trust/listener.hpp"
#include "trust/tls.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kConnectTimeout = std::chrono::seconds(5);  // of each address
// Of TLS and of the WebSocket, each. On a bad link a handshake takes longer than a connection.
constexpr auto kHandshakeTimeout = std::chrono::seconds(10);
constexpr std::size_t kMostOfRefusal = 512;
// A large frame's memory is given back.
constexpr std::size_t kKeptBytes = 64 * 1024;
using WebSocket = websocket::stream<Stream, /*deflateSupported=*/false>;

}  // namespace

struct Link::Implementation : std::enable_shared_from_this<Link::Implementation> {
  Implementation(asio::io_context& io_context, LinkOptions link_options, LinkHandlers link_handlers, std::uint64_t seed)
      : io(io_context),
        options(std::move(link_options)),
        handlers(std::move(link_handlers)),
        resolver(io_context),
        retry(io_context),
        backoff(seed) {}

  // One attempt and, where it succeeds, the connection that came of it. A new one for each attempt: a late callback of
  // an old one finds that it is no longer `current`.
  struct Connection {
    Connection(asio::io_context& io_context, const Rate& max_rate)
        : socket(io_context), pause(io_context), silence(io_context), expiry(io_context), rate(max_rate) {}
    WebSocket socket;
    asio::steady_timer pause;
    asio::steady_timer silence;
    asio::system_timer expiry;  // of the server's certificate
    SilenceWatch watch;
    std::uint64_t frames_read = 0;  // control frames included
    bool pinging = false;
    RateLimit rate;
    websocket::response_type answer;  // of the server to the handshake
    beast::flat_buffer buffer;
    std::deque<std::string> queue;
    std::size_t queued_bytes = 0;
    bool opened = false;
    std::chrono::steady_clock::time_point opened_at;
    std::string address;  // where the host has several: which one, for messages
  };
  using ConnectionPointer = std::shared_ptr<Connection>;
  asio::io_context& io;
  LinkOptions options;
  LinkHandlers handlers;
  tcp::resolver resolver;
  asio::steady_timer retry;
  Backoff backoff;
  Link::Counters counters;
  bool stopped = true;
  ConnectionPointer current;
  std::size_t failures = 0;  // since a connection last stood

  [[nodiscard]] std::string where() const { return authority(options.host, options.port); }

  // What is called only as long as the connection is the current one.
  template <typename Work>
  auto of(const ConnectionPointer& connection, Work work) {
    return [self = shared_from_this(), connection, work = std::move(work)](const auto&... results) {
      if (self->is_current(connection)) work(results...);
    };
  }

  void attempt() {
    current = std::make_shared<Connection>(io, options.max_rate);
    const auto resolved = [this, connection = current](error_code failure, const tcp::resolver::results_type& found) {
      if (failure) return lost(connection, "couldn't resolve its name: " + failure.message());
      connect(connection, found);
    };
    resolver.async_resolve(options.host, std::to_string(options.port), of(current, resolved));
  }

  // From one attempt to the next another address comes first: one that is connected to may yet be another machine's.
  void connect(const ConnectionPointer& connection, const tcp::resolver::results_type& found) {
    auto addresses = std::make_shared<Addresses>(found.begin(), found.end());
    const auto first = addresses->begin() + static_cast<std::ptrdiff_t>(failures % addresses->size());
    std::rotate(addresses->begin(), first, addresses->end());
    const auto connected = [this, connection, several = addresses->size() > 1](error_code failure,
                                                                               const tcp::endpoint& address) {
      connection->address = several ? "at " + address.address().to_string() + ": " : "";
      if (failure) return lost(connection, connection->address + failure.message());
      secure(connection);
    };
    connect_in_turn(beast::get_lowest_layer(connection->socket), addresses, kConnectTimeout, of(connection, connected));
  }

  void secure(const ConnectionPointer& connection) {
    auto& stream = beast::get_lowest_layer(connection->socket);
    stream.expires_after(kHandshakeTimeout);
    const auto secured = [this, connection](const std::string& objection) {
      objection.empty() ? shake_hands(connection) : lost(connection, connection->address + objection);
    };
    if (!options.tls) return judge_listener(stream, options.listener, kHandshakeTimeout, of(connection, secured));
    secure_client(stream, *options.tls, CertificateKind::kCoordinator, options.host, of(connection, secured));
  }

  void shake_hands(const ConnectionPointer& connection) {
    auto& stream = beast::get_lowest_layer(connection->socket);
    stream.expires_never();
    error_code ignored;
    stream.socket().set_option(tcp::no_delay(true), ignored);
    auto& socket = connection->socket;
    // Beast would take a frame that is long on its way for silence.
    socket.set_option(websocket::stream_base::timeout{kHandshakeTimeout, websocket::stream_base::none(),
                                                      /*keep_alive_pings=*/false});
    socket.control_callback([raw = connection.get()](auto, auto) { ++raw->frames_read; });
    socket.read_message_max(options.max_frame_bytes);
    socket.auto_fragment(false);
    socket.binary(true);
    if (const std::string token = options.token ? options.token() : ""; !token.empty()) {
      socket.set_option(websocket::stream_base::decorator([token](websocket::request_type& request) {
        request.set(beast::http::field::authorization, "Bearer " + token);
      }));
    }
    const auto shaken = [this, connection](error_code failure) {
      if (failure) return lost(connection, connection->address + refusal_of(connection, failure));
      established(connection);
    };
    socket.async_handshake(connection->answer, where(), options.path, of(connection, shaken));
  }

  [[nodiscard]] std::string refusal_of(const ConnectionPointer& connection, error_code failure) const {
    if (failure != websocket::error::upgrade_declined) {
      return "the WebSocket handshake failed: " + connection_failure(failure);
    }
    return "it refuses this agent with status " + std::to_string(connection->answer.result_int()) + ": " +
           connection->answer.body().substr(0, kMostOfRefusal);
  }

  void established(const ConnectionPointer& connection) {
    connection->opened = true;
    connection->opened_at = std::chrono::steady_clock::now();
    failures = 0;
    read(connection);
    listen_for_silence(connection);
    end_with_certificate(connection);
    if (handlers.opened) handlers.opened();
  }

  void listen_for_silence(const ConnectionPointer& connection) {
    connection->silence.expires_after(SilenceWatch::period(options.silence_limit));
    connection->silence.async_wait(of(connection, [this, connection](error_code cancelled) {
      if (cancelled) return;
      auto& socket = beast::get_lowest_layer(connection->socket).socket();
      TransportProgress progress = transport_progress(socket.native_handle());
      progress.received += connection->frames_read;
      const auto verdict = connection->watch.look(progress);
      if (verdict == SilenceWatch::Verdict::kGone) return lost(connection, "silent for too long");
      if (verdict == SilenceWatch::Verdict::kAsk) ping(connection);
      listen_for_silence(connection);
    }));
  }

  void ping(const ConnectionPointer& connection) {
    if (std::exchange(connection->pinging, true)) return;
    connection->socket.async_ping({}, [connection](error_code) { connection->pinging = false; });
  }

  // A certificate that has expired gives no right to what it was shown for.
  void end_with_certificate(const ConnectionPointer& connection) {
    const auto peer = peer_identity(beast::get_lowest_layer(connection->socket));
    if (!peer) return;
    connection->expiry.expires_at(expiry_of(*peer));
    connection->expiry.async_wait(of(connection, [this, connection](error_code cancelled) {
      if (!cancelled) lost(connection, "its certificate has expired");
    }));
  }

  void read(const ConnectionPointer& connection) {
    const auto came = [this, connection](error_code failure, std::size_t) {
      if (failure == websocket::error::message_too_big) ++counters.too_large;
      failure ? lost(connection, explain(failure)) : received(connection);
    };
    connection->socket.async_read(connection->buffer, of(connection, came));
  }

  void received(const ConnectionPointer& connection) {
    const auto bytes = connection->buffer.cdata();
    ++connection->frames_read;
    if (handlers.message) handlers.message({static_cast<const char*>(bytes.data()), bytes.size()});
    if (!is_current(connection)) return;
    const Nanoseconds wait = connection->rate.take(std::chrono::steady_clock::now().time_since_epoch(), bytes.size());
    connection->buffer.consume(connection->buffer.size());
    if (connection->buffer.capacity() > kKeptBytes) connection->buffer.shrink_to_fit();
    if (wait.count() == 0) return read(connection);
    ++counters.delayed;
    connection->pause.expires_after(wait);
    connection->pause.async_wait(of(connection, [this, connection](error_code cancelled) {
      if (!cancelled) read(connection);
    }));
  }

  bool send(std::string frame) {
    if (!current || !current->opened) return false;
    if (current->queued_bytes + frame.size() > options.max_queued_bytes) {
      ++counters.refused;
      return false;
    }
    current->queued_bytes += frame.size();
    current->queue.push_back(std::move(frame));
    if (current->queue.size() == 1) write(current);
    return true;
  }

  void write(const ConnectionPointer& connection) {
    const auto written = [this, connection](error_code failure, std::size_t) {
      if (failure) return lost(connection, explain(failure));
      connection->queued_bytes -= connection->queue.front().size();
      connection->queue.pop_front();
      if (!connection->queue.empty()) write(connection);
    };
    connection->socket.async_write(asio::buffer(connection->queue.front()), of(connection, written));
  }

  static void cancel_timers(Connection& connection) {
    connection.pause.cancel();
    connection.silence.cancel();
    connection.expiry.cancel();
  }

  void lost(const ConnectionPointer& connection, const std::string& reason) {
    cancel_timers(*connection);
    beast::get_lowest_layer(connection->socket).close();
    current.reset();
    ++failures;
    const auto open_for = connection->opened ? std::chrono::steady_clock::now() - connection->opened_at
                                             : std::chrono::steady_clock::duration::zero();
    retry.expires_after(backoff.next(open_for));
    retry.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled && !self->stopped) self->attempt();
    });
    if (handlers.closed) handlers.closed(where() + ": " + reason);
  }

  void stop() {
    if (stopped) return;
    stopped = true;
    retry.cancel();
    resolver.cancel();
    const auto connection = std::exchange(current, nullptr);
    if (!connection) return;
    cancel_timers(*connection);
    if (!connection->opened) return beast::get_lowest_layer(connection->socket).close();
    connection->socket.async_close(websocket::close_code::going_away, [connection](error_code) {});
  }

  [[nodiscard]] bool is_current(const ConnectionPointer& connection) const { return !stopped && current == connection; }

  [[nodiscard]] std::string explain(error_code failure) const {
    if (failure == websocket::error::closed) return "closed by the other side";
    if (failure == websocket::error::message_too_big) {
      return "it sent a frame of more than " + std::to_string(options.max_frame_bytes) + " bytes";
    }
    return connection_failure(failure);
  }
};

Link::Link(EventLoop& loop, LinkOptions options, LinkHandlers handlers, std::uint64_t seed)
    : implementation_(
          std::make_shared<Implementation>(loop.context().io, std::move(options), std::move(handlers), seed)) {}

Link::~Link() {
  implementation_->handlers = {};
  implementation_->stop();
}

void Link::start() {
  if (!implementation_->stopped) return;
  implementation_->stopped = false;
  implementation_->attempt();
}

void Link::stop() {
  implementation_->stop();
}

bool Link::open() const {
  return implementation_->current && implementation_->current->opened;
}

bool Link::send(std::string frame) {
  return implementation_->send(std::move(frame));
}

std::size_t Link::queued_bytes() const {
  return implementation_->current ? implementation_->current->queued_bytes : 0;
}

void Link::drop(const std::string& reason) {
  const auto connection = implementation_->current;
  if (open()) implementation_->lost(connection, reason);
}

void Link::judge_again() {
  const auto connection = implementation_->current;
  if (!open() || !implementation_->options.tls) return;
  const std::string objection = objection_to(beast::get_lowest_layer(connection->socket),
                                             *implementation_->options.tls->contexts(), CertificateKind::kCoordinator);
  if (!objection.empty()) implementation_->lost(connection, objection);
}

const Link::Counters& Link::counters() const {
  return implementation_->counters;
}

}  // namespace trimtab::net
