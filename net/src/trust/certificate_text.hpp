#pragma once

// Certificates and keys between PEM, OpenSSL's objects and plain values.

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <memory>
#include <string_view>

#include "net/certificates.hpp"

namespace trimtab::net {

// Owners of OpenSSL's objects, and its last error in words.
struct OpensslDeleter {
  void operator()(BIO* object) const { BIO_free_all(object); }
  void operator()(BIGNUM* object) const { BN_free(object); }
  void operator()(EVP_PKEY* object) const { EVP_PKEY_free(object); }
  void operator()(X509* object) const { X509_free(object); }
  void operator()(X509_EXTENSION* object) const { X509_EXTENSION_free(object); }
  void operator()(X509_STORE* object) const { X509_STORE_free(object); }
  void operator()(X509_STORE_CTX* object) const { X509_STORE_CTX_free(object); }
  void operator()(GENERAL_NAMES* object) const { GENERAL_NAMES_free(object); }
};
template <typename Object>
using OpensslHandle = std::unique_ptr<Object, OpensslDeleter>;

// Takes what OpenSSL has noted on this thread; never what is in a key.
inline std::string openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason != nullptr ? reason : "OpenSSL gives no reason";
}

// Reads from `text`, which must outlive it.
inline OpensslHandle<BIO> memory_reader(std::string_view text) {
  return OpensslHandle<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Nobody is at the terminal to be asked: an encrypted key is an error.
inline int no_passphrase(char*, int, int, void*) {
  return -1;
}

// All certificates in `pem`, at least one; `source` is named in the error.
[[nodiscard]] Result<std::vector<OpensslHandle<X509>>> read_certificates(std::string_view pem,
                                                                         const std::string& source);
[[nodiscard]] Result<OpensslHandle<EVP_PKEY>> read_key(std::string_view pem, const std::string& source);

[[nodiscard]] PeerIdentity identity_of(const X509* certificate);
// Null where it has none, or none that can be read.
[[nodiscard]] OpensslHandle<GENERAL_NAMES> alternative_names(const X509* certificate);
// Of a node of this tenant, among the certificate's alternative names: "trimtab:tenant:NAME".
[[nodiscard]] std::string tenant_uri(std::string_view tenant);
// Nothing: the name is no such URI.
[[nodiscard]] std::optional<std::string> tenant_of(const GENERAL_NAME& name);
// Since the Unix epoch.
[[nodiscard]] Nanoseconds time_of(const ASN1_TIME* time);
// "2027-03-01 12:00 UTC".
[[nodiscard]] std::string date_text(Nanoseconds time);

}  // namespace trimtab::net
