#pragma once

// The audit log: who did what to which job, when and why. Written before the action is carried out, changed by nobody,
// removed by the coordinator alone, after audit_retention (sql/0002_audit.sql, 0003_retention.sql). What people are
// called is what their tokens say; where none are asked for, what they say of themselves.

#include <cstdint>
#include <string>

#include "tuning/action.hpp"

namespace trimtab::coordinator {

inline constexpr const char* kCoordinatorActor = "coordinator";

struct AuditEntry {
  std::string who;
  std::string what;
  std::string job;
  std::int64_t run = 0;
  std::string why;
  std::string tenant = {};  // whose job it is
};

// Whose entries of a job's name are wanted. A name may have been another's before.
struct AuditReader {
  std::string tenant;
  std::int64_t run = 0;  // of this tenant: its entries are from before entries said whose they are
};

struct StoredAudit {
  std::int64_t entry = 0;
  std::int64_t at_ns = 0;
  AuditEntry audit;
};

// What an action does to the job or its machines, in words. Empty for what only the coordinator itself sees.
[[nodiscard]] std::string audited(const Action& action);

}  // namespace trimtab::coordinator
