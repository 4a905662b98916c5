#pragma once

// The connection that net's Beast sources share: TCP, plain or under TLS. One type for both, so that Beast's templates
// are compiled once.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/websocket/teardown.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/peer_identity.hpp"

namespace trimtab::net {

using TcpSocket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
using TcpStream = boost::beast::basic_stream<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
using TlsStream = boost::asio::ssl::stream<TcpStream&>;
using TlsContext = boost::asio::ssl::context;

class Stream {  // not final: Asio derives from it to look at it
 public:
  using executor_type = boost::asio::io_context::executor_type;

  explicit Stream(boost::asio::io_context& io) : tcp_(std::make_unique<TcpStream>(io)) {}
  explicit Stream(TcpSocket socket) : tcp_(std::make_unique<TcpStream>(std::move(socket))) {}

  [[nodiscard]] executor_type get_executor() noexcept { return tcp_->get_executor(); }
  [[nodiscard]] TcpSocket& socket() { return tcp_->socket(); }

  // Everything from now on goes through TLS; a handshake comes first.
  void secure(TlsContext& context) { tls_ = std::make_unique<TlsStream>(*tcp_, context); }
  // After a handshake that failed: what comes now is not TLS any more.
  void drop_tls() { tls_.reset(); }
  [[nodiscard]] bool secured() const { return tls_ != nullptr; }
  // REQUIRES: secured().
  [[nodiscard]] TlsStream& tls() { return *tls_; }

  template <typename Handler>
  void async_connect(const boost::asio::ip::tcp::endpoint& address, Handler&& handler) {
    tcp_->async_connect(address, std::forward<Handler>(handler));
  }

  template <typename Buffers, typename Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    return tcp_->async_read_some(buffers, std::forward<Handler>(handler));
  }

  template <typename Buffers, typename Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    return tcp_->async_write_some(buffers, std::forward<Handler>(handler));
  }

  // For all that follows, the handshake included: what has not ended by then ends with beast::error::timeout.
  template <typename Duration>
  void expires_after(Duration duration) {
    tcp_->expires_after(duration);
  }
  void expires_never() { tcp_->expires_never(); }
  void close() { tcp_->close(); }

  friend void beast_close_socket(Stream& stream) { stream.close(); }

  // A WebSocket's own closing frames have said that nothing was cut off: TLS need not say it again.
  template <typename Handler>
  friend void async_teardown(boost::beast::role_type role, Stream& stream, Handler&& handler) {
    boost::beast::websocket::async_teardown(role, stream.socket(), std::forward<Handler>(handler));
  }

 private:
  std::unique_ptr<TcpStream> tcp_;
  std::unique_ptr<TlsStream> tls_;
};

// Who is at the other end, by certificate. Nothing without TLS, or where none was shown.
[[nodiscard]] std::optional<PeerIdentity> peer_identity(Stream& stream);
// When the right that the certificate gives ends.
[[nodiscard]] inline std::chrono::system_clock::time_point expiry_of(const PeerIdentity& peer) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(peer.expires));
}
// The other side closed before it said anything: somebody who only looked whether the port is served.
[[nodiscard]] bool closed_in_silence(Stream& stream, const boost::system::error_code& failure);
// Why a handshake failed, in words; `failure` is what Asio says.
[[nodiscard]] std::string handshake_failure(Stream& stream, const boost::system::error_code& failure);

}  // namespace trimtab::net
