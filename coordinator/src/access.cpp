#include "access.hpp"

namespace trimtab::coordinator {
namespace {

using Kind = net::CertificateKind;

std::string shown(const std::optional<net::PeerIdentity>& peer) {
  if (!peer) return "none";
  return (peer->kind ? "a " + std::string(to_string(*peer->kind)) + "'s" : "one of no kind") + " ('" + peer->name +
         "')";
}

bool is(const std::optional<net::PeerIdentity>& peer, Kind kind) {
  return peer && peer->kind == kind;
}

}  // namespace

Access::Answer Access::person(const net::HttpRequest& request, Need need) const {
  if (need == Need::kOpen || !tokens_) return {};
  if (request.token.empty()) {
    return {{},
            Denial{401,
                   "a token is needed: name its file with --token-file (TRIMTAB_CLIENT_TOKEN_FILE), or send "
                   "'Authorization: Bearer TOKEN'. An operator makes one with 'trimtab token add'"}};
  }
  const auto owner = tokens_->tokens().find(request.token);
  if (!owner) return {{}, Denial{401, "this token is not known here, or not any more"}};
  const net::Role needed = need == Need::kOperate ? net::Role::kOperate : net::Role::kView;
  if (!net::may(owner->role, needed)) {
    return {{},
            Denial{403, "this needs the role " + std::string(to_string(needed)) + ", but " + owner->name +
                            " has the role " + std::string(to_string(owner->role))}};
  }
  if (under_tls_ && (!is(request.peer, Kind::kPerson) || request.peer->name != owner->name)) {
    return {{},
            Denial{403, "the token of " + owner->name + " needs the certificate of that person, but there is " +
                            shown(request.peer)}};
  }
  return {{owner->name, owner->role, owner->tenant}, std::nullopt};
}

std::optional<Denial> Access::agent(const net::HttpRequest& request) const {
  if (under_tls_) {
    if (is(request.peer, Kind::kNode)) return std::nullopt;
    return Denial{403, "an agent needs a node's certificate, but this is " + shown(request.peer)};
  }
  if (!tokens_) return std::nullopt;
  const auto owner = tokens_->tokens().find(request.token);
  if (!owner) return Denial{401, "an agent needs a known token here: name its file with --token-file"};
  if (owner->role == net::Role::kAgent) return std::nullopt;
  return Denial{403, "an agent needs a token of the role agent, but " + owner->name + " has the role " +
                         std::string(to_string(owner->role))};
}

Status Access::check_node(const std::optional<net::PeerIdentity>& peer, const std::string& node) const {
  if (!under_tls_ || (peer && peer->name == node)) return {};
  return no("an agent says that it is node " + node + ", but its certificate is " + shown(peer) +
            ": issue one for each node, or start the agent with --node of that name");
}

Result<bool> Access::reload(bool in_any_case) {
  return tokens_ ? tokens_->reload(in_any_case) : Result<bool>(false);
}

}  // namespace trimtab::coordinator
