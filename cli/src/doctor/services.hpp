#pragma once

// What `trimtab doctor` judges of services on this machine before they run: their configuration, certificates and
// databases. And which of its checks this machine needs: a node has no coordinator, a coordinator's machine no PyTorch,
// and neither has room of `trimtab up`.

#include "agent/configuration.hpp"
#include "coordinator/daemon.hpp"
#include "coordinator/settings.hpp"
#include "doctor/checks.hpp"

namespace trimtab::cli {

// What the agent.toml of this text says; agent::check_configuration says what it does not see.
[[nodiscard]] Result<agent::Configuration> agent_configuration(const std::string& path, const std::string& text);
[[nodiscard]] Result<agent::Configuration> read_agent_configuration(const std::string& path);
// The same of coordinator.toml and coordinator::check_settings.
[[nodiscard]] Result<coordinator::Settings> read_coordinator_settings(const std::string& path);

// The configuration of one of this machine's agents.
struct AgentFile {
  std::string path;
  std::string user;  // of agent-USER.toml, which trimtab-agent@USER reads; empty = agent.toml
};
// Those that are in `directory`: agent.toml, then agent-USER.toml in the order of their names.
[[nodiscard]] std::vector<AgentFile> agent_files(const std::string& directory);

// Of a coordinator's database on a PostgreSQL server. Those that are files are left alone: looking at one would make
// files beside it. Pure.
[[nodiscard]] Check check_server_database(const std::string& key, const Result<ServerInspection>& seen);
// Of agent.toml, each agent-USER.toml and coordinator.toml in `directory` where they are there, of the certificates
// that they name, and of databases on a server. Takes some seconds where one does not answer.
[[nodiscard]] std::vector<Check> configuration_checks(const std::string& directory);

// The services of this machine, by their files.
struct Services {
  bool agent = false;  // agent.toml or an agent-USER.toml
  bool coordinator = false;
  [[nodiscard]] bool none() const { return !agent && !coordinator; }
};
[[nodiscard]] Services configured_services(const std::string& directory);

struct Scope {
  bool coordinator_program = true;
  bool agent_program = true;
  bool up_directories = true;                // where `trimtab up` writes
  bool up_port = true;                       // where its coordinator would listen
  std::optional<Health> without_torch = {};  // how bad its absence is; nothing = it is not looked for
};
// `job` and `state`: the person gave one. Pure.
[[nodiscard]] Scope scope_of(const Services& services, bool job, bool state);

}  // namespace trimtab::cli
