#include "stream.hpp"

#include <boost/beast/websocket/teardown.hpp>

namespace trimtab::net {

void Stream::shake_hands(TlsStream::handshake_type role, Completed done) {
  tls_->async_handshake(role, std::move(done));
}

void Stream::connect(const boost::asio::ip::tcp::endpoint& address, Completed done) {
  tcp_->async_connect(address, std::move(done));
}

void Stream::read_some(const FewBuffers<boost::asio::mutable_buffer>& buffers, Transferred done) {
  if (told_) {
    done = [this, done = std::move(done)](boost::system::error_code failure, std::size_t bytes) {
      told_(bytes);
      done(failure, bytes);
    };
  }
  if (tls_) return tls_->async_read_some(buffers, std::move(done));
  tcp_->async_read_some(buffers, std::move(done));
}

void Stream::write_some(const FewBuffers<boost::asio::const_buffer>& buffers, Transferred done) {
  if (tls_) return tls_->async_write_some(buffers, std::move(done));
  tcp_->async_write_some(buffers, std::move(done));
}

void Stream::tear_down(boost::beast::role_type role, Completed done) {
  boost::beast::websocket::async_teardown(role, socket(), std::move(done));
}

}  // namespace trimtab::net
