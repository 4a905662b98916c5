#pragma once

// How `trimtab doctor` finds this machine's agent and asks it how it is.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/configuration.hpp"
#include "base/clock.hpp"
#include "doctor_checks.hpp"

namespace trimtab::cli {

// What the agent.toml at `path` says; agent::check_configuration says what it does not see.
[[nodiscard]] Result<agent::Configuration> agent_configuration(const std::string& path, const std::string& text);

// Where the agent shows its metrics.
struct AgentPlace {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7421;  // 0 = nowhere
  bool under_tls = false;
  bool configured = false;  // there is an agent.toml
  bool named = false;       // somebody gave the port
};
// `hosts` are those that the agent's certificate is for, `port` what somebody gave. Pure.
[[nodiscard]] AgentPlace agent_place(const std::optional<agent::Configuration>& configured,
                                     const std::vector<std::string>& hosts, std::optional<std::uint16_t> port);
// By the agent.toml in `directory`, where it is there and can be used.
[[nodiscard]] AgentPlace find_agent(const std::string& directory, std::optional<std::uint16_t> port);

// Takes some seconds where an agent answers: what it takes shows between two looks. Nothing where none answers and none
// is configured or named. `person` are the files of who asks; they may be absent. `pause` waits.
using Pause = std::function<void(Nanoseconds)>;
[[nodiscard]] std::vector<Check> running_agent_checks(const AgentPlace& place, const net::CredentialFiles& person,
                                                      const Clock& clock, const Pause& pause);

}  // namespace trimtab::cli
