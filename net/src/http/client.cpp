#include "net/http_client.hpp"

#include <boost/beast/http/field.hpp>

#include "http/exchange.hpp"
#include "trust/listener.hpp"
#include "trust/tls.hpp"

namespace trimtab::net {

namespace http = boost::beast::http;

namespace {

constexpr std::uint64_t kMaxReplyBytes = 256U << 20;

HttpExchange::Secure secured_by(const HttpEndpoint& endpoint, Nanoseconds timeout) {
  if (!endpoint.tls && !endpoint.listener) return {};
  if (!endpoint.tls) {
    return [&endpoint, timeout](Stream& stream, auto done) {
      judge_listener(stream, *endpoint.listener, timeout, std::move(done));
    };
  }
  return [&endpoint](Stream& stream, auto done) {
    secure_client(stream, *endpoint.tls, endpoint.kind, endpoint.host, std::move(done));
  };
}

HttpExchange::Request request_of(const HttpEndpoint& endpoint, const std::string& method, const std::string& target,
                                 const std::string& body) {
  HttpExchange::Request request;
  request.version(11);
  request.method_string(method);
  request.target(target);
  if (!endpoint.token.empty()) request.set(http::field::authorization, "Bearer " + endpoint.token);
  request.keep_alive(false);
  if (!body.empty()) request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  return request;
}

Error error_of(const HttpExchange::Failure& failure, const HttpEndpoint& endpoint) {
  const std::string where = authority(endpoint.host, endpoint.port);
  switch (failure.kind) {
    case HttpExchange::Failure::Kind::kTimeout:
      return unavailable("no answer from " + where + " in time. Is that daemon alive, and is it the right port?");
    case HttpExchange::Failure::Kind::kNoListener:
      if (endpoint.kind != CertificateKind::kCoordinator) return unavailable(failure.message);
      return unavailable(failure.message +
                         ". Start it with 'trimtab up' (or trimtab-coordinator), or name another with --coordinator "
                         "HOST:PORT.");
    default:
      return unavailable(failure.message);
  }
}

}  // namespace

Result<HttpReply> http_request(const HttpEndpoint& endpoint, const std::string& method, const std::string& target,
                               const std::string& body, Nanoseconds timeout) {
  boost::asio::io_context io{1};
  std::optional<HttpExchange::Outcome> outcome;
  const auto exchange = std::make_shared<HttpExchange>(
      io, HttpExchange::Options{endpoint.host, endpoint.port, timeout, kMaxReplyBytes, secured_by(endpoint, timeout)});
  exchange->start(request_of(endpoint, method, target, body), [&](HttpExchange::Outcome ended) {
    outcome = std::move(ended);
    io.stop();
  });
  io.run();
  if (const auto* failure = std::get_if<HttpExchange::Failure>(&*outcome)) return error_of(*failure, endpoint);
  auto& reply = std::get<HttpExchange::Reply>(*outcome);
  return HttpReply{static_cast<int>(reply.result_int()), std::move(reply.body())};
}

}  // namespace trimtab::net
