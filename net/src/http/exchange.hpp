#pragma once

// One HTTP request and its reply on a connection of its own: name, connection, TLS, request and reply under one
// deadline. Made by make_shared; lives until it has ended and its last callback has returned, which a name that is
// being looked up can delay. Used on the io_context's thread.

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include "net/host_text.hpp"

#include "stream.hpp"

namespace trimtab::net {

class HttpExchange final : public std::enable_shared_from_this<HttpExchange> {
 public:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  using Reply = boost::beast::http::response<boost::beast::http::string_body>;
  struct Failure {
    enum class Kind { kTimeout, kNoListener, kUnreachable, kMalformed };
    Kind kind = Kind::kUnreachable;
    std::string message;  // names host and port
  };
  using Outcome = std::variant<Reply, Failure>;
  // Makes TLS of a connected stream, or looks whose the listener is, and says what is wrong with the server, or "".
  using Secure = std::function<void(Stream&, std::function<void(const std::string& objection)>)>;
  struct Options {
    std::string host;
    std::uint16_t port = 0;
    Nanoseconds timeout{0};
    std::uint64_t max_reply_bytes = 0;
    Secure secure = {};  // unset: no TLS, and anybody's
  };

  HttpExchange(boost::asio::io_context& io, Options options);
  // Sets Host. Each of the host's addresses gets its part of the time, as if all that come before it were silent.
  // `done` is called once, unless cancel() comes first.
  void start(Request request, std::function<void(Outcome)> done);
  void cancel();

 private:
  [[nodiscard]] std::string where() const { return authority(options_.host, options_.port); }
  [[nodiscard]] bool ended() const { return done_ == nullptr; }
  void connect(const std::shared_ptr<const Addresses>& addresses);
  void connected(boost::system::error_code failure);
  void write();
  void read(boost::system::error_code broken);
  void received(boost::system::error_code failure, boost::system::error_code broken);
  void fail(Failure::Kind kind, std::string message) { end(Failure{kind, std::move(message)}); }
  void end(Outcome outcome);

  Options options_;
  std::chrono::steady_clock::time_point deadline_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer timer_;
  Stream stream_;
  Request request_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::response_parser<boost::beast::http::string_body> parser_;
  std::function<void(Outcome)> done_;
};

}  // namespace trimtab::net
