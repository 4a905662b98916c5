#pragma once

// Owners of OpenSSL's objects, and its last error in words.

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

namespace trimtab::net {

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

}  // namespace trimtab::net
