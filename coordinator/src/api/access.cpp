#include "api/access.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agents/peer_text.hpp"
#include "base/text_parts.hpp"
#include "net/certificates.hpp"

namespace trimtab::coordinator {
namespace {

using Kind = net::CertificateKind;

std::string shown(const std::optional<net::PeerIdentity>& peer) {
  if (!peer) return "none";
  return (peer->kind ? "a " + std::string(to_string(*peer->kind)) + "'s" : "one of no kind") + " ('" + peer->name +
         "')";
}

// May be a peer's own words.
std::string whose(const std::string& tenant) {
  constexpr std::size_t kLongest = 64;
  return tenant == net::kEveryTenant ? "all tenants" : "tenant '" + first_of(tenant, kLongest) + "'";
}

bool is(const std::optional<net::PeerIdentity>& peer, Kind kind) {
  return peer && peer->kind == kind;
}

// What the coordinator makes of a hello's tenant.
std::string served(const std::string& said) {
  return said == net::kEveryTenant ? "" : said;
}

struct NodeRight {
  const char* shown_by;
  std::string tenant;
};

Result<std::string> allowed(const NodeRight& right, const std::string& node, const std::string& said, bool must_say) {
  const bool for_all = right.tenant == net::kEveryTenant;
  if (said.empty() && for_all && must_say) {
    return no(
        "node " + node + " does not say whose jobs it runs, and several tenants hand in jobs here: set tenant in " +
        "its agent.toml to the one whose user its agent runs as, or to \"*\" where all tenants' jobs may run as " +
        "that user");
  }
  if (said.empty()) return served(right.tenant);
  if (for_all || said == right.tenant) return served(said);
  return no("node " + node + " says that it runs jobs of " + whose(said) + ", but its " + right.shown_by +
            " is for those of " + whose(right.tenant) + ": set tenant in its agent.toml to that, or issue it another " +
            right.shown_by + " (--tenant)");
}

// The roles that may, of which those that a further role implies are not named.
std::vector<net::Role> roles_for(Need need) {
  switch (need) {
    case Need::kOpen:
    case Need::kView:
      return {net::Role::kView};
    case Need::kOperate:
      return {net::Role::kOperate};
    case Need::kReadCosts:
      return {net::Role::kView, net::Role::kCosts};
    case Need::kContribute:
      return {net::Role::kOperate, net::Role::kCosts};
  }
  return {};
}

Denial denial_of(const std::string& whose, const std::string& entry, const net::DenyFile& file) {
  return {403, whose + " is revoked: " + entry + " is on the deny list (" + file.path() + ")"};
}

}  // namespace

std::optional<Denial> Access::denied(const std::optional<net::PeerIdentity>& peer) const {
  const auto entry = denied_ && peer ? denied_->list().denies(*peer) : std::nullopt;
  if (!entry) return std::nullopt;
  return denial_of("the certificate '" + peer->name + "'", *entry, *denied_);
}

std::optional<Denial> Access::denied(const net::TokenOwner& owner) const {
  const auto entry = denied_ ? denied_->list().denies_name(owner.name) : std::nullopt;
  return entry ? std::optional(denial_of("the token of " + owner.name, *entry, *denied_)) : std::nullopt;
}

Access::Answer Access::person(const net::HttpRequest& request, Need need) const {
  if (auto denial = denied(request.peer)) return {{}, std::move(denial)};
  if (need == Need::kOpen || !tokens_) return {};
  if (request.token.empty()) {
    return {{},
            Denial{401,
                   "a token is needed: name its file with --token-file (TRIMTAB_CLIENT_TOKEN_FILE), or send "
                   "'Authorization: Bearer TOKEN'. An operator makes one with 'trimtab token add NAME --role ROLE "
                   "--tokens FILE', FILE as tokens in coordinator.toml names it"}};
  }
  const auto owner = tokens_->tokens().find(request.token);
  if (!owner) return {{}, Denial{401, "this token is not known here, or not any more"}};
  if (auto denial = denied(*owner)) return {{}, std::move(denial)};
  const std::vector<net::Role> roles = roles_for(need);
  if (std::ranges::none_of(roles, [&](net::Role needed) { return net::may(owner->role, needed); })) {
    const auto name = [](net::Role role) { return std::string(to_string(role)); };
    return {{},
            Denial{403, "this needs the role " + joined(roles, " or ", name) + ", but " + owner->name +
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
  return refusal_of({request.peer, request.token});
}

std::optional<std::string> Access::revoked(const AgentProof& proof, const std::string& node) const {
  if (const auto denial = refusal_of(proof)) return denial->reason;
  const std::string owner = node.empty() ? "" : agent_owner(proof.token);
  if (owner.empty() || may_have(owner, node)) return std::nullopt;
  return "the file of tokens does not let the token of " + owner + " be node " + node +
         ": its line names other nodes (nodes=), or another token's line names this one";
}

std::optional<Denial> Access::refusal_of(const AgentProof& proof) const {
  if (auto denial = denied(proof.peer)) return denial;
  if (under_tls_) {
    if (is(proof.peer, Kind::kNode)) return std::nullopt;
    return Denial{403, "an agent needs a node's certificate, but this is " + shown(proof.peer)};
  }
  if (!tokens_) return std::nullopt;
  const auto owner = tokens_->tokens().find(proof.token);
  if (!owner) return Denial{401, "an agent needs a known token here: name its file with --token-file"};
  if (auto denial = denied(*owner)) return denial;
  if (owner->role == net::Role::kAgent) return std::nullopt;
  return Denial{403, "an agent needs a token of the role agent, but " + owner->name + " has the role " +
                         std::string(to_string(owner->role))};
}

bool Access::has_several_tenants() const {
  return tokens_ && tokens_->tokens().has_several_tenants();
}

Result<std::string> Access::check_node(const AgentProof& proof, const std::string& node,
                                       const std::string& tenant) const {
  const bool several = has_several_tenants();
  if (!under_tls_) {
    // Tokens of agents used to be of any tenant: they bind where there is somebody to keep apart.
    if (!several) return served(tenant);
    const auto owner = tokens_->tokens().find(proof.token);
    if (!owner || owner->role != net::Role::kAgent) return no("the token of node " + node + " is an agent's no more");
    return allowed({"token", owner->tenant}, node, tenant, true);
  }
  if (!proof.peer || proof.peer->name != node) {
    return no("an agent says that it is node " + node + ", but its certificate is " + shown(proof.peer) +
              ": issue one for each node, or start the agent with --node of that name");
  }
  // One from before certificates named tenants is as good as its agent's word while there is nobody to keep apart.
  if (proof.peer->tenant) return allowed({"certificate", *proof.peer->tenant}, node, tenant, several);
  if (!several) return served(tenant);
  return no("the certificate of node " + node + " names no tenant, and several tenants hand in jobs here: issue it " +
            "anew with " + net::issue_command({node, Kind::kNode, Nanoseconds(0), "TENANT"}) +
            " (\"*\" where it runs everybody's jobs)");
}

std::string Access::agent_owner(const std::string& token) const {
  if (!names_are_of_tokens()) return "";
  const auto owner = tokens_->tokens().find(token);
  return owner && owner->role == net::Role::kAgent ? owner->name : "";
}

bool Access::may_have(const std::string& name, const std::string& node) const {
  if (!names_are_of_tokens()) return false;
  const auto owners = tokens_->tokens().owners();
  return std::ranges::any_of(owners, [&](const net::TokenOwner& one) {
    return one.name == name && one.role == net::Role::kAgent && tokens_->tokens().gives(one, node);
  });
}

Result<bool> Access::reload(bool in_any_case) {
  return tokens_ ? tokens_->reload(in_any_case) : Result<bool>(false);
}

Result<bool> Access::reload_denied(bool in_any_case) {
  return denied_ ? denied_->reload(in_any_case) : Result<bool>(false);
}

void RefusalLog::refused(const std::string& kind, const std::string& whom, const std::string& reason) {
  ++counts_[kind];
  const LogPace::Answer answer = pace_.next(clock_.monotonic());
  if (answer.left_out > 0) spdlog::warn("{} more were refused since", answer.left_out);
  if (answer.say) spdlog::warn("refused ({}): {}: {}", kind, printable(whom), printable(reason));
}

}  // namespace trimtab::coordinator
