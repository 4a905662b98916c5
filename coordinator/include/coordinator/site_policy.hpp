#pragma once

// What whoever runs the cluster lets jobs ask for: a TOML file that the setting site_policy names, read again with the
// tokens. A job cannot go beyond it: one that asks for more is refused when it is handed in, and one that runs is held
// on its incumbent plan. Ranks are never ended for it. Pure.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "schema/job.hpp"
#include "schema/settings/settings.hpp"

namespace trimtab::coordinator {

struct SitePolicy {
  std::string source;  // its path, for messages; empty = there is none, and everything is allowed
  bool enabled = true;
  std::set<JobMode> modes = {JobMode::kObserve, JobMode::kRecommend, JobMode::kApprove, JobMode::kAuto};
  std::set<std::string> frozen_knobs;  // of schema/job.hpp, or kOwnKnobs
  std::int32_t max_nodes = 0;          // of a job; 0 = as many as there are
  std::int32_t max_ranks = 0;          // the same
  double max_overhead = 1;             // trials.overhead of a job
  std::int32_t max_trials = 0;         // trials.max_trials of a job; 0 = as many as it asks for
};

// In frozen_knobs: a job's own ones, all of them.
inline constexpr std::string_view kOwnKnobs = "own_knobs";

[[nodiscard]] const SettingTable<SitePolicy>& site_policy_settings();
[[nodiscard]] Result<SitePolicy> parse_site_policy(std::string_view toml, const std::string& source);
// The file, checked as one that grants (net/granting_file.hpp). An empty path: everything is allowed. Where it is read
// again an empty file is an error: it may be half written.
[[nodiscard]] Result<SitePolicy> load_site_policy(const std::string& path, bool may_be_empty = true);

// What the job asks for and the site does not allow: what was asked, what is allowed, by which file. Empty = nothing.
[[nodiscard]] std::string objection(const SitePolicy& site, const Job& job, bool tune);
// The same of the nodes that it would have, or has.
[[nodiscard]] std::string objection_to_nodes(const SitePolicy& site, const Job& job, std::size_t nodes);
// "modes observe, recommend; at most 4 nodes", or that everything is switched off. For people.
[[nodiscard]] std::string describe(const SitePolicy& site);

}  // namespace trimtab::coordinator
