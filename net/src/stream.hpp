#pragma once

// The connection that net's Beast sources share: TCP, plain or under TLS. One type for both, and what reads and writes
// takes buffers and handlers of one type: Beast's templates are compiled once for each message, not again for every
// kind of stream below them.

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/role.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>

#include "net/certificates.hpp"

namespace trimtab::net {

using TcpSocket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
using TcpStream = boost::beast::basic_stream<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
using TlsStream = boost::asio::ssl::stream<TcpStream&>;
using TlsContext = boost::asio::ssl::context;

using Completed = std::function<void(boost::system::error_code)>;
using Transferred = std::function<void(boost::system::error_code, std::size_t)>;

// A handler that can only be moved, as one of the types above; it is let go of before it is called, once.
template <typename... Arguments, typename Handler>
[[nodiscard]] std::function<void(Arguments...)> shared_handler(Handler&& handler) {
  auto kept = std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler));
  return [kept = std::move(kept)](Arguments... arguments) mutable {
    auto once = std::move(*kept);
    kept.reset();
    once(arguments...);
  };
}

// The first buffers of a sequence: a transfer of some bytes need not be of all.
template <typename Buffer>
class FewBuffers {
 public:
  using value_type = Buffer;
  using const_iterator = const Buffer*;

  FewBuffers() = default;
  template <typename Buffers>
  explicit FewBuffers(const Buffers& buffers) {
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto one = boost::asio::buffer_sequence_begin(buffers); one != end && count_ < buffers_.size(); ++one) {
      const Buffer buffer(*one);
      if (buffer.size() > 0) buffers_[count_++] = buffer;
    }
  }
  [[nodiscard]] const_iterator begin() const { return buffers_.data(); }
  [[nodiscard]] const_iterator end() const { return buffers_.data() + count_; }

 private:
  std::array<Buffer, 16> buffers_;
  std::size_t count_ = 0;
};

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
  void shake_hands(TlsStream::handshake_type role, Completed done);

  void connect(const boost::asio::ip::tcp::endpoint& address, Completed done);

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    read_some(FewBuffers<boost::asio::mutable_buffer>(buffers),
              shared_handler<boost::system::error_code, std::size_t>(std::forward<Handler>(handler)));
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    write_some(FewBuffers<boost::asio::const_buffer>(buffers),
               shared_handler<boost::system::error_code, std::size_t>(std::forward<Handler>(handler)));
  }

  // For all that follows, the handshake included: what has not ended by then ends with beast::error::timeout.
  template <typename Duration>
  void expires_after(Duration duration) {
    tcp_->expires_after(duration);
  }
  void expires_never() { tcp_->expires_never(); }
  void close() { tcp_->close(); }
  // Told of the bytes of each read before its handler is. It must not end the stream then, but later. Whoever reads
  // keeps the stream until his handler is called.
  void on_read(std::function<void(std::size_t bytes)> told) { told_ = std::move(told); }

  friend void beast_close_socket(Stream& stream) { stream.close(); }

  // A WebSocket's own closing frames have said that nothing was cut off: TLS need not say it again.
  template <typename Handler>
  friend void async_teardown(boost::beast::role_type role, Stream& stream, Handler&& handler) {
    stream.tear_down(role, shared_handler<boost::system::error_code>(std::forward<Handler>(handler)));
  }

 private:
  void read_some(const FewBuffers<boost::asio::mutable_buffer>& buffers, Transferred done);
  void write_some(const FewBuffers<boost::asio::const_buffer>& buffers, Transferred done);
  void tear_down(boost::beast::role_type role, Completed done);

  std::unique_ptr<TcpStream> tcp_;
  std::unique_ptr<TlsStream> tls_;
  std::function<void(std::size_t)> told_;
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

// A host's addresses, one after the other, each with a time of its own: one that swallows what is sent to it does not
// keep us from the next.
using Addresses = std::vector<boost::asio::ip::tcp::endpoint>;

[[nodiscard]] inline std::shared_ptr<const Addresses> addresses_of(
    const boost::asio::ip::tcp::resolver::results_type& found) {
  return std::make_shared<const Addresses>(found.begin(), found.end());
}

// `done(failure, address)` gets what became of the last address that was tried: no failure when `stream` is connected.
// Closing the stream ends it with operation_aborted. The stream must live until then, and keeps the last address' time
// limit. REQUIRES: there are addresses.
template <typename Done>
void connect_in_turn(Stream& stream, std::shared_ptr<const Addresses> addresses, Nanoseconds each, Done done,
                     std::size_t place = 0) {
  const auto& address = addresses->at(place);
  stream.expires_after(each);
  auto connected = [&stream, addresses, each, done = std::move(done),
                    place](boost::system::error_code failure) mutable {
    const bool over = !failure || failure == boost::asio::error::operation_aborted || place + 1 == addresses->size();
    if (over) return done(failure, addresses->at(place));
    stream.close();
    connect_in_turn(stream, std::move(addresses), each, std::move(done), place + 1);
  };
  stream.connect(address, shared_handler<boost::system::error_code>(std::move(connected)));
}

}  // namespace trimtab::net
