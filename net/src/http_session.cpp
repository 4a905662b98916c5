#include "http_session.hpp"

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <optional>
#include <utility>

#include "http_target.hpp"
#include "websocket_peer.hpp"

namespace trimtab::net {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::uint32_t kMaxHeaderBytes = 16 * 1024;
// After an error reply the rest of the request is read and thrown away for a moment: closing at once would reset the
// connection, and the reply would be lost on the way.
constexpr auto kDrainTime = std::chrono::seconds(2);

HttpResponse plain(int status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::move(text) + "\n"};
}

class BeastSession final : public HttpSession, public std::enable_shared_from_this<BeastSession> {
 public:
  BeastSession(std::shared_ptr<ServerCore> core, TcpSocket socket)
      : core_(std::move(core)), stream_(std::move(socket)), buffer_(64 * 1024), id_(++core_->last_id) {}

  void start() {
    core_->sessions.emplace(id_, shared_from_this());
    read();
  }

  void abort() override { stream_.close(); }

 private:
  void read() {
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(core_->options.max_body_bytes);
    stream_.expires_after(core_->options.idle_timeout);  // For the whole request: a trickle does not extend it.
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code failure, std::size_t) { self->received(failure); });
  }

  void received(error_code failure) {
    if (core_->stopped) return finish();
    if (failure == http::error::body_limit) {
      return refuse(plain(413, "the body is larger than " + std::to_string(core_->options.max_body_bytes) + " bytes"));
    }
    if (failure == http::error::header_limit || failure == http::error::buffer_overflow) {
      return refuse(plain(431, "the header is larger than " + std::to_string(kMaxHeaderBytes) + " bytes"));
    }
    if (failure && failure.category() == http::make_error_code(http::error::bad_method).category() &&
        failure != http::error::end_of_stream && failure != http::error::partial_message) {
      return refuse(plain(400, "this is not HTTP/1.1: " + failure.message()));
    }
    if (failure) return finish();
    serve(parser_->release());
  }

  void serve(UpgradeRequest request) {
    const auto target = parse_target({request.target().data(), request.target().size()});
    if (!target) return refuse(plain(400, "the request's target cannot be decoded"));
    const auto host = request[http::field::host];
    const auto origin = request[http::field::origin];
    if (auto why = refusal({host.data(), host.size()}, {origin.data(), origin.size()}, core_->on_loopback)) {
      return refuse(plain(403, *why));
    }
    if (beast::websocket::is_upgrade(request)) return upgrade(*target, std::move(request));
    keep_alive_ = request.keep_alive();
    head_only_ = request.method() == http::verb::head;
    const HttpRequest asked{std::string(request.method_string()), target->path, target->query,
                            std::move(request.body())};
    reply(core_->handlers.http ? core_->handlers.http(asked) : plain(404, "there is no HTTP interface here"));
  }

  void upgrade(const Target& target, UpgradeRequest request) {
    if (target.path != core_->options.websocket_path) {
      return refuse(plain(404, "there is no WebSocket at " + target.path));
    }
    accept_websocket(core_, std::move(stream_), std::move(request));
    core_->sessions.erase(id_);
  }

  void refuse(HttpResponse response) {
    keep_alive_ = false;
    drain_ = true;
    reply(std::move(response));
  }

  void reply(HttpResponse response) {
    if (core_->stopped) return finish();
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(response.status));
    response_.set(http::field::content_type, response.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    response_.keep_alive(keep_alive_);
    response_.content_length(response.body.size());
    if (!head_only_) response_.body() = std::move(response.body);
    stream_.expires_after(core_->options.idle_timeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](error_code failure, std::size_t) { self->written(failure); });
  }

  void written(error_code failure) {
    if (failure || core_->stopped) return finish();
    if (keep_alive_) return read();
    error_code ignored;
    stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    if (!drain_) return finish();
    stream_.expires_after(kDrainTime);
    drain();
  }

  void drain() {
    stream_.async_read_some(boost::asio::buffer(waste_), [self = shared_from_this()](error_code failure, std::size_t) {
      if (failure) return self->finish();
      self->drain();
    });
  }

  void finish() {
    stream_.close();
    core_->sessions.erase(id_);
  }

  std::shared_ptr<ServerCore> core_;
  TcpStream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> waste_{};
  std::uint64_t id_;
  bool keep_alive_ = false;
  bool head_only_ = false;
  bool drain_ = false;
};

}  // namespace

void start_http_session(const std::shared_ptr<ServerCore>& core, TcpSocket socket) {
  std::make_shared<BeastSession>(core, std::move(socket))->start();
}

}  // namespace trimtab::net
