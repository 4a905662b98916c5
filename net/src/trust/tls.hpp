#pragma once

// The OpenSSL side of Credentials, and how a connection uses it.

#include <boost/asio/ssl/context.hpp>

#include "net/credentials.hpp"
#include "stream.hpp"

namespace trimtab::net {

struct Credentials::Contexts {
  TlsContext server{TlsContext::tls_server};
  TlsContext client{TlsContext::tls_client};
};

// What ended a connection under TLS, in words: after a handshake the other side may still refuse the certificate.
[[nodiscard]] std::string connection_failure(const boost::system::error_code& failure);

// Why the certificate that the other side showed in its handshake is not accepted by these contexts, which may have
// other authorities by now than at that time; empty: it is, or there is none.
[[nodiscard]] std::string objection_to(Stream& stream, const Credentials::Contexts& contexts, CertificateKind other);

// Before the handshake of a client: the server must be `host` by name or address.
[[nodiscard]] Status expect_host(TlsStream& stream, const std::string& host);

// A client's handshake with `host`. `done` gets what is wrong with the server, in words, or an empty string; the stream
// must live until then.
template <typename Done>
void secure_client(Stream& stream, TlsContext& context, const std::string& host, Done done) {
  stream.secure(context);
  if (const Status named = expect_host(stream.tls(), host); !named.ok()) return done(named.error().message);
  auto shaken = [&stream, done = std::move(done)](boost::system::error_code failure) mutable {
    done(failure ? handshake_failure(stream, failure) : std::string());
  };
  stream.shake_hands(TlsStream::client, shared_handler<boost::system::error_code>(std::move(shaken)));
}

// The same with a daemon of this kind.
template <typename Done>
void secure_client(Stream& stream, const Credentials& credentials, CertificateKind kind, const std::string& host,
                   Done done) {
  secure_client(stream, credentials.contexts()->client, host,
                [&stream, kind, done = std::move(done)](const std::string& objection) mutable {
                  if (!objection.empty()) return done(objection);
                  const auto peer = peer_identity(stream);
                  const bool meant = peer && peer->kind == kind;
                  done(meant ? std::string() : "its certificate is not a " + std::string(to_string(kind)) + "'s");
                });
}

}  // namespace trimtab::net
