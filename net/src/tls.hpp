#pragma once

// The OpenSSL side of Credentials, and how a connection uses it.

#include <boost/asio/ssl/context.hpp>
#include <string>
#include <utility>

#include "net/credentials.hpp"
#include "stream.hpp"

namespace trimtab::net {

struct Credentials::Contexts {
  TlsContext server{TlsContext::tls_server};
  TlsContext client{TlsContext::tls_client};
};

// What ended a connection under TLS, in words: after a handshake the other side may still refuse the certificate.
[[nodiscard]] std::string connection_failure(const boost::system::error_code& failure);

// Before the handshake of a client: the server must be `host` by name or address.
[[nodiscard]] Status expect_host(TlsStream& stream, const std::string& host);

// A client's handshake with a coordinator. `done` gets what is wrong with the server, in words, or an empty string; the
// stream must live until then.
template <typename Done>
void secure_client(Stream& stream, const Credentials& credentials, const std::string& host, Done done) {
  stream.secure(credentials.contexts()->client);
  if (const Status named = expect_host(stream.tls(), host); !named.ok()) return done(named.error().message);
  stream.tls().async_handshake(TlsStream::client,
                               [&stream, done = std::move(done)](boost::system::error_code failure) mutable {
                                 if (failure) return done(handshake_failure(stream, failure));
                                 const auto peer = peer_identity(stream);
                                 const bool coordinator = peer && peer->kind == CertificateKind::kCoordinator;
                                 done(coordinator ? std::string() : "its certificate is not a coordinator's");
                               });
}

}  // namespace trimtab::net
