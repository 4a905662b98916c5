#include "trust/tls.hpp"

#include <openssl/ssl.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core/error.hpp>

#include "trust/certificate_text.hpp"

namespace trimtab::net {

namespace {

// Why a certificate is refused.
std::string verdict(long verified) {
  const std::string text = X509_verify_cert_error_string(verified);
  switch (verified) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "it is not of the authority that is trusted here (" + text + ")";
    default:
      return text;
  }
}

}  // namespace

Status expect_host(TlsStream& stream, const std::string& host) {
  SSL* session = stream.native_handle();
  boost::system::error_code not_an_address;
  (void)boost::asio::ip::make_address(host, not_an_address);
  const auto set_name = [&] {
    return SSL_set1_host(session, host.c_str()) == 1 &&
           SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    const_cast<char*>(host.c_str())) == 1;
  };
  const auto set_address = [&] { return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host.c_str()) == 1; };
  if (not_an_address ? set_name() : set_address()) return {};
  return bad_input("'" + host + "' cannot be the name of a server with a certificate: " + openssl_error());
}

std::string objection_to(Stream& stream, const Credentials::Contexts& contexts, CertificateKind other) {
  if (!stream.secured()) return "";
  SSL* session = stream.tls().native_handle();
  X509* certificate = SSL_get0_peer_certificate(session);
  if (certificate == nullptr) return "";
  const bool serves = other == CertificateKind::kCoordinator;
  const TlsContext& context = serves ? contexts.client : contexts.server;
  X509_STORE* trusted = SSL_CTX_get_cert_store(const_cast<TlsContext&>(context).native_handle());
  const OpensslHandle<X509_STORE_CTX> judging(X509_STORE_CTX_new());
  const bool begun = judging != nullptr &&
                     X509_STORE_CTX_init(judging.get(), trusted, certificate, SSL_get_peer_cert_chain(session)) == 1;
  if (!begun) return "its certificate cannot be judged again: " + openssl_error();
  X509_STORE_CTX_set_default(judging.get(), serves ? "ssl_server" : "ssl_client");
  const bool accepted = X509_verify_cert(judging.get()) == 1;
  const int verified = X509_STORE_CTX_get_error(judging.get());
  ERR_clear_error();
  return accepted ? "" : "its certificate ('" + identity_of(certificate).name + "') is refused: " + verdict(verified);
}

std::optional<PeerIdentity> peer_identity(Stream& stream) {
  if (!stream.secured()) return std::nullopt;
  const X509* certificate = SSL_get0_peer_certificate(stream.tls().native_handle());
  if (certificate == nullptr) return std::nullopt;
  return identity_of(certificate);
}

std::string connection_failure(const boost::system::error_code& failure) {
  if (failure == boost::asio::ssl::error::stream_truncated) return "closed by the other side";
  if (failure.category() != boost::asio::error::get_ssl_category()) return failure.message();
  switch (ERR_GET_REASON(static_cast<unsigned long>(failure.value()))) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return "it needs a certificate of the cluster's authority, and none was shown";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return "it refuses this side's certificate, which is not of the authority that it trusts";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "it refuses this side's certificate, which has expired by its clock";
    default:
      return failure.message();
  }
}

bool closed_in_silence(Stream& stream, const boost::system::error_code& failure) {
  const bool closed = failure == boost::asio::ssl::error::stream_truncated || failure == boost::asio::error::eof;
  return closed && BIO_number_read(SSL_get_rbio(stream.tls().native_handle())) == 0;
}

std::string handshake_failure(Stream& stream, const boost::system::error_code& failure) {
  ERR_clear_error();
  if (failure == boost::beast::error::timeout) return "the TLS handshake took too long";
  SSL* session = stream.tls().native_handle();
  const long verified = SSL_get_verify_result(session);
  if (verified != X509_V_OK) {
    const X509* certificate = SSL_get0_peer_certificate(session);
    const std::string name = certificate == nullptr ? "" : " ('" + identity_of(certificate).name + "')";
    return "its certificate" + name + " is refused: " + verdict(verified);
  }
  if (failure.category() != boost::asio::error::get_ssl_category())
    return "the TLS handshake broke: " + failure.message();
  switch (ERR_GET_REASON(static_cast<unsigned long>(failure.value()))) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "it shows no certificate, but one of the cluster's authority is needed";
    case SSL_R_HTTP_REQUEST:
      return "it speaks HTTP without TLS, but only TLS is spoken here";
    case SSL_R_WRONG_VERSION_NUMBER:
      return "the other side does not speak TLS";
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return "it speaks too old a TLS";
    default:
      return "the TLS handshake failed: " + failure.message();
  }
}

}  // namespace trimtab::net
