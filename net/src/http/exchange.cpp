#include "http/exchange.hpp"

#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "base/units.hpp"
#include "trust/tls.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Kind = HttpExchange::Failure::Kind;

HttpExchange::HttpExchange(asio::io_context& io, Options options)
    : options_(std::move(options)), resolver_(io), timer_(io), stream_(io) {
  parser_.body_limit(options_.max_reply_bytes);
}

void HttpExchange::start(Request request, std::function<void(Outcome)> done) {
  request_ = std::move(request);
  done_ = std::move(done);
  request_.set(http::field::host, where());
  parser_.skip(request_.method() == http::verb::head);
  deadline_ = std::chrono::steady_clock::now() + options_.timeout;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled) return;
    self->fail(Kind::kTimeout, "no answer from " + self->where() + " in " + format_duration(self->options_.timeout));
  });
  resolver_.async_resolve(options_.host, std::to_string(options_.port),
                          [self = shared_from_this()](error_code failure, const tcp::resolver::results_type& found) {
                            if (self->ended()) return;
                            if (!failure) return self->connect(addresses_of(found));
                            self->fail(Kind::kUnreachable,
                                       "couldn't resolve " + self->options_.host + ": " + failure.message());
                          });
}

void HttpExchange::cancel() {
  done_ = nullptr;
  timer_.cancel();
  resolver_.cancel();
  stream_.close();
}

void HttpExchange::connect(const std::shared_ptr<const Addresses>& addresses) {
  const Nanoseconds left = deadline_ - std::chrono::steady_clock::now();
  const auto each = left / static_cast<std::int64_t>(addresses->size());
  connect_in_turn(stream_, addresses, each, [self = shared_from_this()](error_code failure, const tcp::endpoint&) {
    if (!self->ended()) self->connected(failure);
  });
}

void HttpExchange::connected(error_code failure) {
  stream_.expires_never();  // From here on there is the one deadline.
  if (failure == asio::error::connection_refused) return fail(Kind::kNoListener, "nothing listens on " + where());
  if (failure) return fail(Kind::kUnreachable, "couldn't connect to " + where() + ": " + failure.message());
  if (!options_.secure) return write();
  options_.secure(stream_, [self = shared_from_this()](const std::string& objection) {
    if (self->ended()) return;
    objection.empty() ? self->write() : self->fail(Kind::kUnreachable, self->where() + ": " + objection);
  });
}

// A server that refuses a large body answers before it has read it all: the reply counts, not the broken write.
void HttpExchange::write() {
  http::async_write(stream_, request_, [self = shared_from_this()](error_code broken, std::size_t) {
    if (!self->ended()) self->read(broken);
  });
}

void HttpExchange::read(error_code broken) {
  http::async_read(stream_, buffer_, parser_, [self = shared_from_this(), broken](error_code failure, std::size_t) {
    if (!self->ended()) self->received(failure, broken);
  });
}

void HttpExchange::received(error_code failure, error_code broken) {
  if (!failure) return end(parser_.release());
  const bool of_http = failure.category() == http::make_error_code(http::error::bad_method).category();
  const bool cut_off = failure == http::error::end_of_stream || failure == http::error::partial_message;
  fail(of_http && !cut_off ? Kind::kMalformed : Kind::kUnreachable,
       "the exchange with " + where() + " broke: " + connection_failure(broken ? broken : failure));
}

void HttpExchange::end(Outcome outcome) {
  if (ended()) return;
  const auto done = std::exchange(done_, nullptr);
  cancel();
  done(std::move(outcome));
}

}  // namespace trimtab::net
