#pragma once

// A small certificate authority: ECDSA P-256 keys, SHA-256 signatures, X.509 v3. Pure but for the random numbers, which
// are OpenSSL's. For the command line; daemons only use what it made (net/credentials.hpp), and say how.

#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::net {

// Who a certificate of the cluster's authority belongs to: the subject's CN is the name, its OU the kind; of a node's,
// a URI "trimtab:tenant:NAME" among the alternative names says whose jobs the node may run. Plain values.
// What a certificate is for. A node's cannot stand for a coordinator (it is for clients only), a person's not for a
// node.
enum class CertificateKind { kAuthority, kCoordinator, kNode, kPerson };
// "authority", "coordinator", "node", "person".
[[nodiscard]] std::string_view to_string(CertificateKind kind);
[[nodiscard]] std::optional<CertificateKind> parse_certificate_kind(std::string_view text);

struct PeerIdentity {
  std::string name;
  std::optional<CertificateKind> kind;  // nothing: made by somebody who does not know these kinds
  Nanoseconds expires{0};               // since the Unix epoch
  // Of a node: "*" is everybody's; nothing where the certificate does not say. Not checked: compare it, no more.
  std::optional<std::string> tenant = {};
  std::string serial = {};  // hexadecimal
};

// PEM.
struct Certificate {
  std::string certificate;
  std::string key;  // PKCS #8, not encrypted
};

struct CertificateRequest {
  CertificateKind kind = CertificateKind::kNode;
  std::string name;                // 1 to 64 of [A-Za-z0-9._-], not beginning with '.': it becomes a file's name
  std::vector<std::string> hosts;  // DNS names and IP addresses that it may be asked under; a coordinator needs one
  Nanoseconds now{0};              // since the Unix epoch
  Nanoseconds valid_for{0};        // whole days; an authority's end ends it, too
  std::string tenant = {};         // of a node: whose jobs it may run, "*" everybody's; empty: it does not say
};

// Signs itself and others, but no other authority.
[[nodiscard]] Result<Certificate> make_authority(const CertificateRequest& request);
// A coordinator's, and a node's that has hosts, is for servers and clients, the others are for clients alone.
[[nodiscard]] Result<Certificate> issue_certificate(const Certificate& authority, const CertificateRequest& request);

struct CertificateDescription {
  PeerIdentity owner;
  std::string issuer;
  std::string serial;  // hexadecimal
  Nanoseconds valid_from{0};
  std::vector<std::string> hosts;  // and what else it may be asked under, but no tenant
};
// Of the first certificate in `pem`; `source` is named in the error.
[[nodiscard]] Result<CertificateDescription> describe_certificate(std::string_view pem, const std::string& source);

// The command that issues this one, for messages: 'trimtab cert issue node n0 --dir CA_DIRECTORY --out n0', in quotes,
// for a person to run. What is not known, or could mean something to a shell, is a word in capitals.
[[nodiscard]] std::string issue_command(const PeerIdentity& owner, const std::vector<std::string>& hosts = {});

}  // namespace trimtab::net
