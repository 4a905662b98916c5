#include "trust/server_trust.hpp"

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>

#include "trust/certificate_text.hpp"

namespace trimtab::net {

Result<ServerTrust> ServerTrust::load(const std::string& authority) {
  ServerTrust trust(authority);
  TRIMTAB_TRY_STATUS(trust.read());
  return trust;
}

Status ServerTrust::renew() {
  return file_.path().empty() || !file_.changed() ? Status() : read();
}

Status ServerTrust::read() {
  auto fresh = std::make_unique<TlsContext>(TlsContext::tls_client);
  SSL_CTX* context = fresh->native_handle();
  bool usable = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (file_.path().empty()) {
    usable = usable && SSL_CTX_set_default_verify_paths(context) == 1;
  } else {
    TRIMTAB_TRY(const std::string text, file_.read(false));
    TRIMTAB_TRY(const auto certificates, read_certificates(text, file_.path()));
    X509_STORE* trusted = SSL_CTX_get_cert_store(context);
    for (const auto& one : certificates) usable = usable && X509_STORE_add_cert(trusted, one.get()) == 1;
  }
  if (!usable) return bad_input("the authorities of servers cannot be used: " + openssl_error());
  context_ = std::move(fresh);
  return {};
}

}  // namespace trimtab::net
