#pragma once

// How `trimtab doctor` finds this machine's agents and asks them how they are.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/configuration.hpp"
#include "base/clock.hpp"
#include "doctor/looks.hpp"

namespace trimtab::cli {

// What the agent.toml at `path` says; agent::check_configuration says what it does not see.
[[nodiscard]] Result<agent::Configuration> agent_configuration(const std::string& path, const std::string& text);

// The configuration of one of this machine's agents.
struct AgentFile {
  std::string path;
  std::string user;  // of agent-USER.toml, which trimtab-agent@USER reads; empty = agent.toml
};
// Those that are in `directory`: agent.toml, then agent-USER.toml in the order of their names.
[[nodiscard]] std::vector<AgentFile> agent_files(const std::string& directory);

// Where an agent shows its metrics.
struct AgentPlace {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7421;  // 0 = nowhere
  bool under_tls = false;
  bool configured = false;  // there is an agent.toml
  bool named = false;       // somebody gave the port
  std::string user = {};    // whose it is, where its file says so
};
// `hosts` are those that the agent's certificate is for, `port` what somebody gave. Pure.
[[nodiscard]] AgentPlace agent_place(const std::optional<agent::Configuration>& configured,
                                     const std::vector<std::string>& hosts, std::optional<std::uint16_t> port);
// By the files in `directory` that can be used; where there is none, the usual place. With a port the one there alone.
[[nodiscard]] std::vector<AgentPlace> find_agents(const std::string& directory, std::optional<std::uint16_t> port);

// Of each; nothing of one that does not answer and is neither configured nor named. `person` are the files of who asks;
// they may be absent.
[[nodiscard]] std::vector<FirstLook> look_at_agents(const std::vector<AgentPlace>& places,
                                                    const net::CredentialFiles& person, const Clock& clock);

}  // namespace trimtab::cli
