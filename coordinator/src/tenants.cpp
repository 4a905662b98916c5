#include "tenants.hpp"

#include <set>

#include "base/text_parts.hpp"
#include "net/tokens.hpp"

namespace trimtab::coordinator {

bool sees(const std::string& tenant, const std::string& owner) {
  return tenant == net::kEveryTenant || tenant == owner;
}

std::string told_jobs(const std::vector<OwnedJob>& jobs, const std::string& tenant) {
  std::set<std::string> own;
  std::set<std::string> others;
  for (const OwnedJob& job : jobs) (sees(tenant, job.tenant) ? own : others).insert(job.name);
  const std::string number =
      others.size() == 1 ? "a job of another tenant" : std::to_string(others.size()) + " jobs of other tenants";
  if (own.empty()) return number;
  return joined(own) + (others.empty() ? "" : " and " + number);
}

}  // namespace trimtab::coordinator
