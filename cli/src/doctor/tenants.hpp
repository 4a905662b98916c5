#pragma once

// What `trimtab doctor` says of whose jobs a node runs, where configuration, certificates and tokens disagree: the
// coordinator refuses such an agent, or places nothing there (docs/security.md, "Whose jobs a node runs").

#include "doctor/checks.hpp"
#include "net/tokens.hpp"

namespace trimtab::cli {

// What an agent says and shows: agent.toml's tenant (empty: none), and that of its certificate (nothing: it names
// none, or there is none).
struct NodeTenant {
  std::string said;
  std::optional<std::string> certified;
  std::string node = {};
};

// Nothing where nothing is wrong. `tokens`: those of the coordinator on this machine, where there is one, in the file
// that remedies name; `under_tls`: its agents show certificates. Pure.
[[nodiscard]] std::vector<Check> tenant_checks(const std::optional<NodeTenant>& node,
                                               const std::optional<net::Tokens>& tokens, bool under_tls,
                                               const std::string& tokens_file = "FILE");

// The same of agent.toml and coordinator.toml in `directory`; what cannot be read is configuration_checks()' to say.
[[nodiscard]] std::vector<Check> tenant_checks(const std::string& directory);

}  // namespace trimtab::cli
