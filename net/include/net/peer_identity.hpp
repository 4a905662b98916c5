#pragma once

// Who a certificate of the cluster's authority belongs to: the subject's CN is the name, its OU the kind; of a node's,
// a URI "trimtab:tenant:NAME" among the alternative names says whose jobs the node may run. Plain values.

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace trimtab::net {

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
};

}  // namespace trimtab::net
