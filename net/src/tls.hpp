#pragma once

// The OpenSSL side of Credentials, and how a connection uses it.

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

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

}  // namespace trimtab::net
