#pragma once

// What `trimtab doctor` says of a coordinator's databases on a PostgreSQL server. Those that are files it leaves alone:
// looking at one would make files beside it.

#include <string>
#include <vector>

#include "coordinator/server_databases.hpp"
#include "coordinator/settings.hpp"
#include "doctor/checks.hpp"

namespace trimtab::cli {

// A judgement over what was seen. Pure.
[[nodiscard]] Check check_server_database(const std::string& key, const Result<ServerInspection>& seen);

// Asks the servers that the settings name; takes some seconds where one does not answer.
[[nodiscard]] std::vector<Check> database_checks(const coordinator::Settings& settings);

}  // namespace trimtab::cli
