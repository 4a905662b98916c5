#include "coordinator/site_policy.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "net/granting_file.hpp"

namespace trimtab::coordinator {
namespace {

using P = SitePolicy;
using Names = std::set<std::string>;

constexpr std::array kModes{JobMode::kObserve, JobMode::kRecommend, JobMode::kApprove, JobMode::kAuto};

Names names_of(const std::set<JobMode>& modes) {
  Names names;
  for (const JobMode mode : modes) names.insert(std::string(to_string(mode)));
  return names;
}

Result<std::set<JobMode>> read_modes(const GivenSetting& given) {
  std::set<JobMode> modes;
  for (const std::string& word : given.list) {
    const auto known = std::ranges::find_if(kModes, [&](JobMode mode) { return to_string(mode) == word; });
    if (known == kModes.end()) {
      return bad_input("expected some of " + joined(names_of({kModes.begin(), kModes.end()})) + ", found '" + word +
                       "'");
    }
    modes.insert(*known);
  }
  return modes;
}

Result<Names> read_knobs(const GivenSetting& given) {
  Names known{std::string(kOwnKnobs)};
  for (const KnobName& knob : kKnobs) known.insert(std::string(knob.name));
  for (const std::string& word : given.list) {
    if (!known.contains(word)) return bad_input("expected some of " + joined(known) + ", found '" + word + "'");
  }
  return Names(given.list.begin(), given.list.end());
}

template <typename Field>
SettingKind<Field> list_setting(std::string expected, Result<Field> (*read)(const GivenSetting&)) {
  return {{GivenSetting::Type::kList}, "LIST", std::move(expected), read, [](const Field&) { return std::string(); }};
}

std::string format_share(double share) {
  return format_number(share, 4);
}

std::string by(const SitePolicy& site) {
  return "the site's policy (" + site.source + ")";
}

bool tries_plans(const Job& job, bool tune) {
  return tune && job.mode != JobMode::kObserve;
}

std::string frozen_of(const SitePolicy& site, const Job& job) {
  Names frozen;
  for (const KnobName& knob : kKnobs) {
    if (job.knobs.*knob.knob && site.frozen_knobs.contains(std::string(knob.name))) frozen.emplace(knob.name);
  }
  if (frozen.empty()) return "";
  return by(site) + " freezes the knobs " + joined(site.frozen_knobs) + ", and job " + job.name + " has " +
         joined(frozen) + ": set them false in [knobs] of job.toml";
}

}  // namespace

const SettingTable<SitePolicy>& site_policy_settings() {
  static const SettingTable<SitePolicy> kTable(
      SettingSources::kFile,
      {{{"enabled", flag_setting(), &P::enabled,
         "false switches everything off: no job is taken, and those that run stay on the plan that they have"},
        {"modes", list_setting("an array of modes", read_modes), &P::modes, "what jobs may be handed in as",
         "all of them"},
        {"frozen_knobs", list_setting("an array of names of knobs", read_knobs), &P::frozen_knobs,
         "knobs that no job may have. own_knobs: those that jobs define themselves", "none"},
        {"max_nodes", integer_setting(0, 1'000'000), &P::max_nodes,
         "nodes of a job. One that would have more waits. 0 = no limit"},
        {"max_ranks", integer_setting(0, 1'000'000'000), &P::max_ranks, "ranks of a job. 0 = no limit"},
        {"max_overhead", number_setting(0, 1), &P::max_overhead,
         "trials.overhead of a job: the share of its time that trials may cost"},
        {"max_trials", integer_setting(0, 1'000'000), &P::max_trials,
         "trials.max_trials of a job. A restarted job is launched at least twice for each. 0 = no limit"}}});
  return kTable;
}

Result<SitePolicy> parse_site_policy(std::string_view toml, const std::string& source) {
  SitePolicy site;
  TRIMTAB_TRY_STATUS(site_policy_settings().set_from_toml(site, toml, source));
  site.source = source;
  return site;
}

Result<SitePolicy> load_site_policy(const std::string& path, bool may_be_empty) {
  if (path.empty()) return SitePolicy();
  TRIMTAB_TRY(const std::string text, net::read_granting_file(path));
  if (!may_be_empty && text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return bad_input(
        path + " is empty, as an editor leaves it for a moment. To allow everything, leave a line that begins with #");
  }
  return parse_site_policy(text, path);
}

std::string objection(const SitePolicy& site, const Job& job, bool tune) {
  if (!site.enabled) return by(site) + " has switched everything off (enabled = false)";
  if (tune && !site.modes.contains(job.mode)) {
    return by(site) + " allows the modes " + joined(names_of(site.modes)) + ", and job " + job.name +
           " asks for mode " + std::string(to_string(job.mode));
  }
  if (site.max_ranks > 0 && job.world_size > site.max_ranks) {
    return by(site) + " allows " + std::to_string(site.max_ranks) + " ranks (max_ranks), and job " + job.name +
           " asks for " + std::to_string(job.world_size);
  }
  if (!tries_plans(job, tune)) return "";
  if (job.trials.overhead > site.max_overhead) {
    return by(site) + " allows trials an overhead of " + format_share(site.max_overhead) + " (max_overhead), and job " +
           job.name + " asks for " + format_share(job.trials.overhead) + " (trials.overhead)";
  }
  if (site.max_trials > 0 && job.trials.max_trials > site.max_trials) {
    return by(site) + " allows " + std::to_string(site.max_trials) + " trials (max_trials), and job " + job.name +
           " asks for " + std::to_string(job.trials.max_trials) + " (trials.max_trials)";
  }
  if (!job.own_knobs.empty() && site.frozen_knobs.contains(std::string(kOwnKnobs))) {
    return by(site) + " lets no job have knobs of its own (frozen_knobs), and job " + job.name + " has " +
           std::to_string(job.own_knobs.size());
  }
  return frozen_of(site, job);
}

std::string objection_to_nodes(const SitePolicy& site, const Job& job, std::size_t nodes) {
  if (site.max_nodes <= 0 || std::cmp_less_equal(nodes, site.max_nodes)) return "";
  return by(site) + " allows a job " + std::to_string(site.max_nodes) + " nodes (max_nodes), and the " +
         std::to_string(job.world_size) + " ranks of job " + job.name + " take " + std::to_string(nodes);
}

std::string describe(const SitePolicy& site) {
  if (site.source.empty()) return "";
  if (!site.enabled) return "everything is switched off";
  std::string text = "modes " + joined(names_of(site.modes));
  const auto add = [&](bool limited, const std::string& what) { text += limited ? "; " + what : ""; };
  add(!site.frozen_knobs.empty(), "frozen " + joined(site.frozen_knobs));
  add(site.max_nodes > 0, "at most " + std::to_string(site.max_nodes) + " nodes");
  add(site.max_ranks > 0, "at most " + std::to_string(site.max_ranks) + " ranks");
  add(site.max_overhead < 1, "overhead at most " + format_share(site.max_overhead));
  add(site.max_trials > 0, "at most " + std::to_string(site.max_trials) + " trials");
  return text;
}

}  // namespace trimtab::coordinator
