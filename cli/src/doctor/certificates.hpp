#pragma once

// What `trimtab doctor` says of the three TLS files that a daemon of this machine is configured with: they are loaded
// as the daemon loads them, and judged as it and its peers judge them.

#include "doctor/checks.hpp"
#include "net/certificates.hpp"
#include "net/credentials.hpp"

namespace trimtab::cli {

// Whose files they are.
struct CertificateHolder {
  net::CertificateKind kind = net::CertificateKind::kNode;
  std::string name = {};  // that the certificate must be of; empty = any
  std::string user = {};  // as whom the daemon runs, by its unit; empty = not known
};

// One check for each certificate's end, and one for what the three are together. Nothing where none is configured; a
// set that is not whole is the configuration's own finding. Where this user may not read them it says so, without a
// verdict; root also sees whether `holder.user` may.
[[nodiscard]] std::vector<Check> certificate_checks(const net::CredentialFiles& files, const CertificateHolder& holder,
                                                    Nanoseconds now);

// Warns a month before its end. Pure.
[[nodiscard]] Check check_certificate(const std::string& path, const net::CertificateDescription& described,
                                      Nanoseconds now);

// As whom a daemon of this user reads its files; this process's user where it is empty or not known here.
[[nodiscard]] uid_t reader_of(const std::string& user);
[[nodiscard]] Result<net::CertificateDescription> read_certificate(const std::string& path);
// The hosts that the certificate in this file is for; none where it cannot be read.
[[nodiscard]] std::vector<std::string> certificate_hosts(const std::string& path);

}  // namespace trimtab::cli
