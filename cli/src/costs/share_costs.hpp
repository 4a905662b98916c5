#pragma once

// Costs between a cost database and a coordinator: push contributes to it, pull copies from it, and what a contributor
// has contributed is removed. Each says what became of every cost.

#include <string>

#include "jobs/coordinator_client.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

// Sends what `path` measured, of the fingerprint that begins with `hardware` (empty: of all), in requests that are
// answered when they are stored. One that was broken off is repeated: nothing counts twice. 1 where all was refused.
[[nodiscard]] Result<int> push_costs(const CoordinatorClient& client, const std::string& path,
                                     const std::string& hardware, bool as_json, Console& console);

// Copies all into a database of its own first, then merges that into `path`, in one transaction.
[[nodiscard]] Result<int> pull_costs(const CoordinatorClient& client, const std::string& path, bool as_json,
                                     Console& console);

// From a database; or from the coordinator's, where `path` is empty. 1 where there was nothing of them.
[[nodiscard]] Result<int> remove_costs(const std::string& contributor, const std::string& path, bool as_json,
                                       Console& console);
[[nodiscard]] Result<int> remove_costs(const std::string& contributor, const CoordinatorClient& client, bool as_json,
                                       Console& console);

}  // namespace trimtab::cli
