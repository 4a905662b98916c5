#pragma once

// The API's JSON documents: requests' bodies read, answers written from state. Pure.

#include <string>
#include <vector>

#include "agents/membership.hpp"
#include "api/access.hpp"
#include "api/traces.hpp"
#include "jobs/job_table.hpp"
#include "schema/api/job.hpp"
#include "schema/api/status.hpp"
#include "schema/cost_database.hpp"

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
// Lists as long as there are nodes and jobs, as values: whoever writes them as text may do so elsewhere. `now`:
// monotonic; `up`: since the coordinator began.
[[nodiscard]] api::ClusterStatus status_of(const Membership& members, const JobTable& jobs, Nanoseconds now,
                                           Nanoseconds up, const Caller& caller, std::string storage_failure);
[[nodiscard]] api::Nodes all_nodes(const Membership& members, const JobTable& jobs, Nanoseconds now,
                                   const Caller& caller);
[[nodiscard]] api::Jobs all_jobs(const JobTable& jobs, const Caller& caller);
[[nodiscard]] std::string job_document(const JobRun& job);
// The same in two parts, of a job whose documents are in the database alone: what is in memory, and the document with
// what `state` says.
[[nodiscard]] api::Job known_of(const JobRun& job);
[[nodiscard]] std::string job_document(api::Job known, const TuningState& state);
// The job, and "was_running": whether it ran before it was handed in.
[[nodiscard]] std::string submitted_document(const Submitted& submitted);
// `earlier`: trials that the state has no more.
[[nodiscard]] std::string trials_document(const TuningState& state, const std::vector<EarlierTrial>& earlier);
[[nodiscard]] std::string events_document(const std::vector<StoredEvent>& events);
[[nodiscard]] std::string audit_document(const std::vector<StoredAudit>& entries);
[[nodiscard]] std::string costs_document(const std::string& fingerprint, const CostPage& page);
// `is_last`: no others follow.
[[nodiscard]] std::string fingerprints_document(const std::vector<Fingerprint>& fingerprints, bool is_last);

}  // namespace trimtab::coordinator
