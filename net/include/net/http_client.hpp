#pragma once

// One blocking HTTP request, for the command line. Not for daemons: it blocks the calling thread, up to `timeout`.

#include "net/credentials.hpp"
#include "net/listener_rule.hpp"

namespace trimtab::net {

struct HttpReply {
  int status = 0;
  std::string body;
};

struct HttpEndpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7420;
  std::shared_ptr<Credentials> tls = nullptr;  // the server must have a certificate of `kind` for `host`
  std::string token = {};                      // shown as "Authorization: Bearer …"; empty: none
  CertificateKind kind = CertificateKind::kCoordinator;
  std::optional<ListenerRule> listener = {};  // without TLS, on this machine itself; nothing: anybody's
};

// The error of a refused connection says that nothing listens there and how to start it, where that is a coordinator.
// Statuses of 400 and more are replies, not errors.
[[nodiscard]] Result<HttpReply> http_request(const HttpEndpoint& endpoint, const std::string& method,
                                             const std::string& target, const std::string& body, Nanoseconds timeout);

}  // namespace trimtab::net
