#include "net/http_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "http_target.hpp"
#include "stream.hpp"

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
  Exchange(std::string host, std::uint16_t port, Nanoseconds timeout)
      : host_(std::move(host)), port_(std::to_string(port)), deadline_(std::chrono::steady_clock::now() + timeout) {
    parser_.body_limit(kMaxReplyBytes);
  }

  Result<HttpReply> run(const http::request<http::string_body>& request) {
    parser_.skip(request.method() == http::verb::head);
    tcp::resolver resolver(io_);
    resolver.async_resolve(host_, port_, [&](error_code failure, const tcp::resolver::results_type& found) {
      if (failure) return fail(failure, "couldn't resolve " + host_);
      connect(found, request);
    });
    io_.run_until(deadline_);
    if (!done_)
      return unavailable("no answer from " + where() + " in time. Is that daemon alive, and is it the right port?");
    if (!error_.empty()) return unavailable(error_);
    return HttpReply{static_cast<int>(parser_.get().result_int()), std::move(parser_.get().body())};
  }

 private:
  [[nodiscard]] std::string where() const { return host_ + ":" + port_; }

  void connect(const tcp::resolver::results_type& found, const http::request<http::string_body>& request) {
    stream_.async_connect(found, [&](error_code failure, const tcp::endpoint&) {
      if (failure == asio::error::connection_refused) {
        done_ = true;
        error_ = "nothing listens on " + where() +
                 ". Start it with 'trimtab up' (or trimtab-coordinator), or name another with --coordinator HOST:PORT.";
        return;
      }
      if (failure) return fail(failure, "couldn't connect to " + where());
      // A server that refuses a large body answers before it has read it all: the reply counts, not the broken write.
      http::async_write(stream_, request, [&](error_code broken, std::size_t) { read(broken); });
    });
  }

  void read(error_code broken) {
    http::async_read(stream_, buffer_, parser_, [this, broken](error_code failure, std::size_t) {
      if (failure) return fail(broken ? broken : failure, "the exchange with " + where() + " broke");
      done_ = true;
    });
  }

  void fail(error_code failure, const std::string& action) {
    done_ = true;
    error_ = action + ": " + failure.message();
  }

  std::string host_;
  std::string port_;
  std::chrono::steady_clock::time_point deadline_;
  asio::io_context io_{1};
  TcpStream stream_{io_};
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  bool done_ = false;
  std::string error_;
};

}  // namespace

Result<HttpReply> http_request(const std::string& host, std::uint16_t port, const std::string& method,
                               const std::string& target, const std::string& body, Nanoseconds timeout) {
  http::request<http::string_body> request;
  request.version(11);
  request.method_string(method);
  request.target(target);
  request.set(http::field::host, authority(host, port));
  request.keep_alive(false);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  return Exchange(host, port, timeout).run(request);
}

}  // namespace trimtab::net
