#pragma once

// The command lines of the embedded daemons, and where their files are. Pure.

#include "daemons/embedded.hpp"

namespace trimtab::cli {

// Tokens of an `up`: without them every user of this machine could start commands through the loopback port. The
// hashes, the one that people's commands show, the one that agents show.
[[nodiscard]] std::string token_hashes(const std::string& state_directory);
[[nodiscard]] std::string person_token(const std::string& state_directory);
[[nodiscard]] std::string agent_token(const std::string& state_directory);

[[nodiscard]] std::string port_file(const std::string& state_directory);
// The daemons' logs, which they keep within log_limit themselves.
[[nodiscard]] std::string coordinator_log(const std::string& state_directory);
[[nodiscard]] std::string agent_log(const std::string& state_directory, std::uint32_t index);
[[nodiscard]] std::string agent_directory(const std::string& state_directory, std::uint32_t index);

// What the agent calls its node.
[[nodiscard]] std::string node_name(const UpOptions& options, std::uint32_t index);
// The name in up.json of a node's agent.
[[nodiscard]] std::string agent_process(const std::string& node);

[[nodiscard]] std::vector<std::string> coordinator_command(const UpOptions& options);
[[nodiscard]] std::vector<std::string> agent_command(const UpOptions& options, std::uint16_t port, std::uint32_t index,
                                                     Bytes memory, bool is_root);

}  // namespace trimtab::cli
