#pragma once

// The API's JSON documents. Pure: text from state.

#include <string>
#include <vector>

#include "api/access.hpp"
#include "base/result.hpp"
#include "jobs/job_table.hpp"
#include "services.hpp"

namespace trimtab::coordinator {

struct Submission {
  Job job;
  bool tune = true;
};
// {"job": {…}, "tune": true}
[[nodiscard]] Result<Submission> parse_submission(const std::string& body);

[[nodiscard]] std::string error_document(const std::string& message);
[[nodiscard]] std::string status_document(const Services& services, const JobTable& jobs, Nanoseconds up,
                                          const Caller& caller);
[[nodiscard]] std::string nodes_document(const Services& services, const Caller& caller);
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
