#include "doctor/tenants.hpp"

#include <algorithm>

#include "doctor/certificates.hpp"
#include "doctor/services.hpp"
#include "files.hpp"

namespace trimtab::cli {

namespace {

constexpr const char* kRemedy = "docs/security.md, 'Whose jobs a node runs'";

std::string shown(const std::string& tenant) {
  return tenant == net::kEveryTenant ? "everybody" : tenant;
}

bool has_operator(const net::Tokens& tokens, const std::string& tenant) {
  return std::ranges::any_of(tokens.owners(), [&](const net::TokenOwner& owner) {
    return owner.tenant == tenant && net::may(owner.role, net::Role::kOperate);
  });
}

// Before tokens of agents bound them, such a one was of a tenant by its own name.
std::vector<Check> token_checks(const net::Tokens& tokens, const std::string& file) {
  std::vector<Check> checks;
  for (const net::TokenOwner& owner : tokens.owners()) {
    const bool is_agent = owner.role == net::Role::kAgent && owner.tenant != net::kEveryTenant;
    if (!is_agent || has_operator(tokens, owner.tenant)) continue;
    checks.push_back({"tenants", Health::kWarn,
                      "the agent's token " + owner.name + " is for jobs of tenant " + owner.tenant +
                          ", of whom nobody may hand one in",
                      "make it anew: 'trimtab token remove " + owner.name + " --tokens " + file +
                          "', then 'trimtab token add " + owner.name + " --role agent --tenant TENANT --tokens " +
                          file + "'"});
  }
  return checks;
}

std::optional<NodeTenant> node_of(const std::string& directory) {
  const auto read = read_agent_configuration(directory + "/agent.toml");
  if (!read.ok()) return std::nullopt;
  NodeTenant node{read->tenant, std::nullopt, read->node};
  const auto described = read_certificate(read->tls.certificate);
  if (described.ok()) node.certified = described->owner.tenant;
  return node;
}

std::string issue_command(const NodeTenant& node, const std::string& tenant) {
  return net::issue_command({node.node, net::CertificateKind::kNode, Nanoseconds(0), tenant});
}

}  // namespace

std::vector<Check> tenant_checks(const std::optional<NodeTenant>& node, const std::optional<net::Tokens>& tokens,
                                 bool under_tls, const std::string& tokens_file) {
  std::vector<Check> checks;
  const bool several = tokens && tokens->has_several_tenants();
  if (node && node->certified && *node->certified != net::kEveryTenant && !node->said.empty() &&
      node->said != *node->certified) {
    checks.push_back({"tenants", Health::kFail,
                      "agent.toml says that the node runs jobs of " + shown(node->said) +
                          ", its certificate that it is " + "for those of " + *node->certified +
                          ": the coordinator refuses it",
                      "set tenant to that, or issue one for what it says: " + issue_command(*node, node->said)});
  }
  if (several && under_tls && node && !node->certified) {
    checks.push_back(
        {"tenants", Health::kFail,
         "several tenants hand in jobs, and this node's certificate names none: the coordinator refuses it",
         issue_command(*node, "TENANT") + "; " + kRemedy});
  }
  if (several && node && node->said.empty() && node->certified.value_or(net::kEveryTenant) == net::kEveryTenant) {
    checks.push_back({"tenants", Health::kWarn,
                      "several tenants hand in jobs, and agent.toml does not say whose this node runs as its user",
                      std::string("set tenant to one, or to \"*\" where all may run as that user; ") + kRemedy});
  }
  if (several && !under_tls) append(checks, token_checks(*tokens, tokens_file));
  return checks;
}

std::vector<Check> tenant_checks(const std::string& directory) {
  const auto read = read_coordinator_settings(directory + "/coordinator.toml");
  const coordinator::Settings settings = read.ok() ? *read : coordinator::Settings{};
  std::optional<net::Tokens> tokens;
  if (const auto lines = read_file(settings.tokens); !settings.tokens.empty() && lines.ok()) {
    auto parsed = net::Tokens::parse(*lines, settings.tokens);
    if (parsed.ok()) tokens = std::move(parsed).value();
  }
  return tenant_checks(node_of(directory), tokens, !settings.tls.empty(), settings.tokens);
}

}  // namespace trimtab::cli
