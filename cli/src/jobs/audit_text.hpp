#pragma once

// The coordinator's audit log as a table for people. Pure.

#include <string>
#include <vector>

#include "schema/api/history.hpp"

namespace trimtab::cli {

[[nodiscard]] std::string describe(const std::vector<api::AuditEntry>& entries);

}  // namespace trimtab::cli
