#pragma once

// Plans that failed earlier jobs, as a fact of the cost database: a JSON object from plan hash to reason. Pure.

#include <string>
#include <vector>

namespace trimtab::coordinator {

// The fact once `plan_hash` has failed for `reason` (RememberFailure), too. `known` null or no object: nothing was
// known.
[[nodiscard]] std::string with_failure(const std::string* known, const std::string& plan_hash,
                                       const std::string& reason);

// What later jobs are not to be offered. A hang may have been a link's, and a single crash that of a process beside
// the ranks: those are tried again.
[[nodiscard]] std::vector<std::string> ruled_out_by(const std::string& fact);

}  // namespace trimtab::coordinator
