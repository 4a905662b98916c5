#pragma once

// The API's JSON documents: requests' bodies read, answers written from state. Pure.

#include <string>
#include <vector>

#include "agents/membership.hpp"
#include "api/access.hpp"
#include "api/traces.hpp"
#include "jobs/job_table.hpp"

namespace trimtab::coordinator {

struct Submission {
  Job job;
  bool tune = true;
};
// {"job": {…}, "tune": true}
[[nodiscard]] Result<Submission> parse_submission(const std::string& body);
// {"seconds": 5} or {"steps": 3}.
[[nodiscard]] Result<TraceRequest> parse_trace_request(const std::string& body);

[[nodiscard]] std::string error_document(const std::string& message);
// `now`: monotonic; `up`: since the coordinator began.
[[nodiscard]] std::string status_document(const Membership& members, const JobTable& jobs, Nanoseconds now,
                                          Nanoseconds up, const Caller& caller);
[[nodiscard]] std::string nodes_document(const Membership& members, Nanoseconds now, const Caller& caller);
[[nodiscard]] std::string jobs_document(const JobTable& jobs, const Caller& caller);
[[nodiscard]] std::string job_document(const JobRun& job);
// The job, and "was_running": whether it ran before it was handed in.
[[nodiscard]] std::string submitted_document(const Submitted& submitted);
// `earlier`: trials that the state has no more.
[[nodiscard]] std::string trials_document(const TuningState& state, const std::vector<EarlierTrial>& earlier);
[[nodiscard]] std::string events_document(const std::vector<StoredEvent>& events);
[[nodiscard]] std::string audit_document(const std::vector<StoredAudit>& entries);
[[nodiscard]] std::string costs_document(const std::string& fingerprint, const std::vector<Cost>& costs);
[[nodiscard]] std::string fingerprints_document(const std::vector<Fingerprint>& fingerprints);

}  // namespace trimtab::coordinator
