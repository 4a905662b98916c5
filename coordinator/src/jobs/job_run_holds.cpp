// What forbids plans to change, beside a person's freeze: thrown kill switches, and what the site does not allow.

#include <set>
#include <string>
#include <utility>

#include "agents/membership.hpp"
#include "coordinator/site_policy.hpp"
#include "jobs/job_run.hpp"
#include "needs.hpp"

namespace trimtab::coordinator {
namespace {

std::size_t node_count(const std::vector<NodeShare>& shares) {
  std::set<std::string> names;
  for (const NodeShare& share : shares) names.insert(share.node);
  return names.size();
}

}  // namespace

std::string JobRun::beyond_site(std::size_t nodes) const {
  if (state().watched) return "";
  const SitePolicy& site = services_.settings.site;
  const std::string asked = objection(site, state().job, state().tune);
  return asked.empty() ? objection_to_nodes(site, state().job, nodes) : asked;
}

void JobRun::follow_holds() {
  if (!active()) return;
  KillSwitches thrown{services_.members.kill_switches(state().tenant), beyond_site(node_count(state().nodes))};
  if (thrown != tuning_.kill_switches()) feed(std::move(thrown));
}

}  // namespace trimtab::coordinator
