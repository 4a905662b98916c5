#include "doctor/tenants.hpp"

#include <algorithm>

#include "coordinator/settings.hpp"
#include "doctor/agent.hpp"
#include "files.hpp"
#include "net/certificates.hpp"

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
  const std::string path = directory + "/agent.toml";
  const auto text = read_file(path);
  if (!text.ok()) return std::nullopt;
  const auto read = agent_configuration(path, *text);
  if (!read.ok()) return std::nullopt;
  NodeTenant node{read->tenant, std::nullopt, read->node};
  if (read->tls.certificate.empty()) return node;
  const auto pem = read_file(read->tls.certificate);
  if (!pem.ok()) return node;
  const auto described = net::describe_certificate(*pem, read->tls.certificate);
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
  if (several && !under_tls) {
    for (Check& one : token_checks(*tokens, tokens_file)) checks.push_back(std::move(one));
  }
  return checks;
}

std::vector<Check> tenant_checks(const std::string& directory) {
  const std::string path = directory + "/coordinator.toml";
  const auto text = read_file(path);
  coordinator::Settings settings;
  const bool is_read = text.ok() && coordinator::coordinator_settings().set_from_toml(settings, *text, path).ok();
  std::optional<net::Tokens> tokens;
  if (is_read && !settings.tokens.empty()) {
    const auto lines = read_file(settings.tokens);
    auto parsed = lines.ok() ? net::Tokens::parse(*lines, settings.tokens) : Result<net::Tokens>(lines.error());
    if (parsed.ok()) tokens = std::move(parsed).value();
  }
  return tenant_checks(node_of(directory), tokens, !settings.tls.empty(), settings.tokens);
}

}  // namespace trimtab::cli
