#pragma once

// Reads what `trimtab doctor` judges of services on this machine: their configuration and certificates, and what
// running daemons say of themselves.

#include <string>
#include <vector>

#include "coordinator_client.hpp"
#include "doctor_checks.hpp"

namespace trimtab::cli {

// Of agent.toml, each agent-USER.toml and coordinator.toml in `directory` where they are there, of the certificates
// that they name, and of databases on a server.
[[nodiscard]] std::vector<Check> configuration_checks(const std::string& directory);

// `named`: somebody gave its address, so that its absence is worth a word.
[[nodiscard]] std::vector<Check> running_coordinator_checks(const CoordinatorClient& client, bool named);

}  // namespace trimtab::cli
