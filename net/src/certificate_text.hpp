#pragma once

// Certificates and keys between PEM, OpenSSL's objects and plain values.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "net/peer_identity.hpp"
#include "openssl_handles.hpp"

namespace trimtab::net {

// All certificates in `pem`, at least one; `source` is named in the error.
[[nodiscard]] Result<std::vector<OpensslHandle<X509>>> read_certificates(std::string_view pem,
                                                                         const std::string& source);
[[nodiscard]] Result<OpensslHandle<EVP_PKEY>> read_key(std::string_view pem, const std::string& source);

[[nodiscard]] PeerIdentity identity_of(const X509* certificate);
// Since the Unix epoch.
[[nodiscard]] Nanoseconds time_of(const ASN1_TIME* time);
// "2027-03-01 12:00 UTC".
[[nodiscard]] std::string date_text(Nanoseconds time);

}  // namespace trimtab::net
