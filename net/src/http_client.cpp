#include "net/http_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "connect_in_turn.hpp"
#include "http_target.hpp"
#include "stream.hpp"
#include "tls.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::uint64_t kMaxReplyBytes = 256U << 20;

// One request on a loop of its own, each step under the one deadline.
class Exchange {
 public:
  Exchange(const HttpEndpoint& endpoint, Nanoseconds timeout)
      : endpoint_(endpoint), deadline_(std::chrono::steady_clock::now() + timeout) {
    parser_.body_limit(kMaxReplyBytes);
  }

  Result<HttpReply> run(const http::request<http::string_body>& request) {
    parser_.skip(request.method() == http::verb::head);
    tcp::resolver resolver(io_);
    resolver.async_resolve(endpoint_.host, std::to_string(endpoint_.port),
                           [&](error_code failure, const tcp::resolver::results_type& found) {
                             if (failure) return fail(failure, "couldn't resolve " + endpoint_.host);
                             connect(addresses_of(found), request);
                           });
    io_.run_until(deadline_);
    if (!done_)
      return unavailable("no answer from " + where() + " in time. Is that daemon alive, and is it the right port?");
    if (!error_.empty()) return unavailable(error_);
    return HttpReply{static_cast<int>(parser_.get().result_int()), std::move(parser_.get().body())};
  }

 private:
  [[nodiscard]] std::string where() const { return authority(endpoint_.host, endpoint_.port); }

  // Each address gets its part of the time, as if all that come before it were silent.
  void connect(const std::shared_ptr<const Addresses>& addresses, const http::request<http::string_body>& request) {
    const Nanoseconds left = deadline_ - std::chrono::steady_clock::now();
    const auto each = left / static_cast<std::int64_t>(addresses->size());
    connect_in_turn(stream_, addresses, each, [&](error_code failure, const tcp::endpoint&) {
      stream_.expires_never();  // From here on there is the one deadline.
      if (failure == asio::error::connection_refused) {
        return end("nothing listens on " + where() +
                   ". Start it with 'trimtab up' (or trimtab-coordinator), or name another with --coordinator "
                   "HOST:PORT.");
      }
      if (failure) return fail(failure, "couldn't connect to " + where());
      if (!endpoint_.tls) return write(request);
      secure(request);
    });
  }

  void secure(const http::request<http::string_body>& request) {
    secure_client(stream_, *endpoint_.tls, endpoint_.host, [&](const std::string& objection) {
      objection.empty() ? write(request) : end(where() + ": " + objection);
    });
  }

  // A server that refuses a large body answers before it has read it all: the reply counts, not the broken write.
  void write(const http::request<http::string_body>& request) {
    http::async_write(stream_, request, [&](error_code broken, std::size_t) { read(broken); });
  }

  void read(error_code broken) {
    http::async_read(stream_, buffer_, parser_, [this, broken](error_code failure, std::size_t) {
      if (failure) return fail(broken ? broken : failure, "the exchange with " + where() + " broke");
      done_ = true;
    });
  }

  void fail(error_code failure, const std::string& action) { end(action + ": " + connection_failure(failure)); }

  void end(std::string error) {
    done_ = true;
    error_ = std::move(error);
  }

  const HttpEndpoint& endpoint_;
  std::chrono::steady_clock::time_point deadline_;
  asio::io_context io_{1};
  Stream stream_{io_};
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  bool done_ = false;
  std::string error_;
};

}  // namespace

Result<HttpReply> http_request(const HttpEndpoint& endpoint, const std::string& method, const std::string& target,
                               const std::string& body, Nanoseconds timeout) {
  http::request<http::string_body> request;
  request.version(11);
  request.method_string(method);
  request.target(target);
  request.set(http::field::host, authority(endpoint.host, endpoint.port));
  if (!endpoint.token.empty()) request.set(http::field::authorization, "Bearer " + endpoint.token);
  request.keep_alive(false);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  return Exchange(endpoint, timeout).run(request);
}

}  // namespace trimtab::net
