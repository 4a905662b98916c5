#pragma once

// What somebody who is woken by a job has to know, from the coordinator's documents. Pure.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "schema/api/history.hpp"
#include "schema/api/job.hpp"
#include "schema/api/status.hpp"

namespace trimtab::cli {

struct Incident {
  api::Job job;
  // How far it came while we watched, and for how long.
  std::int64_t steps = 0;
  double seconds = 0;
  std::vector<api::Trial> trials;
  std::vector<api::AuditEntry> audit;  // of the job, the oldest first
  std::vector<api::Node> nodes;        // of the cluster
};

// Does it train, on which plan, what was tried last, why it ended, what was done to it, and what can be done now.
// `flag`: what other verbs need behind their own words to find the coordinator.
[[nodiscard]] std::string incident_text(const Incident& incident, const std::string& flag);

// The coordinator's own documents for a bug report, redacted (redaction.hpp). `bodies`: name and JSON text. What is no
// JSON is left out, and named.
[[nodiscard]] nlohmann::ordered_json incident_bundle(const std::vector<std::pair<std::string, std::string>>& bodies,
                                                     const std::string& release);

}  // namespace trimtab::cli
