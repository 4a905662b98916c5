#pragma once

// What a tenant is told of others: the one rule of answers, of what a job says of itself, and of logs of jobs.

#include <string>
#include <vector>

namespace trimtab::coordinator {

struct OwnedJob {
  std::string name;
  std::string tenant;
};

// Whether a tenant is told what belongs to this one; net::kEveryTenant is told all.
[[nodiscard]] bool sees(const std::string& tenant, const std::string& owner);

// "a, b and 2 of other tenants": jobs as this tenant may be told of them, its own by name and the rest by their number.
[[nodiscard]] std::string told_jobs(const std::vector<OwnedJob>& jobs, const std::string& tenant);

}  // namespace trimtab::coordinator
