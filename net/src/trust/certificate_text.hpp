#pragma once

// Certificates and keys between PEM, OpenSSL's objects and plain values.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "net/peer_identity.hpp"
#include "trust/openssl_handles.hpp"

namespace trimtab::net {

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
