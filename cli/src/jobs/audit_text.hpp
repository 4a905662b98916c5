#pragma once

// The coordinator's audit log: its JSON as values, and as a table for people. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace trimtab::cli {

struct AuditEntry {
  std::int64_t entry = 0;
  std::int64_t at_ns = 0;  // wall clock
  std::string who;
  std::string what;
  std::string job;
  std::string why;
};

[[nodiscard]] Result<std::vector<AuditEntry>> parse_audit(std::string_view json);
[[nodiscard]] std::string describe(const std::vector<AuditEntry>& entries);

}  // namespace trimtab::cli
