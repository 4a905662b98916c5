#pragma once

// Reads what `trimtab doctor` judges of services on this machine before they run: their configuration, certificates and
// databases.

#include <string>
#include <vector>

#include "doctor/checks.hpp"

namespace trimtab::cli {

// Of agent.toml, each agent-USER.toml and coordinator.toml in `directory` where they are there, of the certificates
// that they name, and of databases on a server.
[[nodiscard]] std::vector<Check> configuration_checks(const std::string& directory);

}  // namespace trimtab::cli
