#pragma once

// The tables of the coordinator's state (sql/), whose rows carry checksums, and what is made again of a file that was
// damaged. StateStore's own.

#include <cstdint>

#include "schema/database.hpp"

namespace trimtab::coordinator::state_tables {

// With their checked columns. A run's number comes first where a row has one.
[[nodiscard]] const CheckedTable& identity_rows();        // coordinator, last_launch
[[nodiscard]] const CheckedTable& identity_again_rows();  // the same
[[nodiscard]] const CheckedTable& job_rows();             // run, name, tenant, phase, active, launch, changed_ns
[[nodiscard]] const CheckedTable& document_rows();        // run, kind, json
[[nodiscard]] const CheckedTable& phase_rows();           // run, sequence, phase, entered_ns
[[nodiscard]] const CheckedTable& trial_rows();
[[nodiscard]] const CheckedTable& step_rows();
[[nodiscard]] const CheckedTable& command_rows();  // id, run, tag, node, done
[[nodiscard]] const CheckedTable& event_rows();    // run, sequence, at_ns, kind, text, data
[[nodiscard]] const CheckedTable& audit_rows();    // entry, at_ns, who, what, job, run, why, tenant

// A trial's state and an event's kind where only its number could be read.
inline constexpr const char* kDamaged = "damaged";
inline constexpr const char* kDamagedText = "what was stored here is damaged and cannot be read";
// An entry of the audit log, the same.
inline constexpr const char* kDamagedEntry = "this entry is damaged and cannot be read";

// Of a run whose record is lost nobody knows the launches: no later one has a number that may be among them.
inline constexpr std::int64_t kLaunchesSkipped = std::int64_t{1} << 20;

}  // namespace trimtab::coordinator::state_tables
