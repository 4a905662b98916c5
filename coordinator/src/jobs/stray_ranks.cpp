// Of Agents: ranks that a node still has of launches that are over.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "agents/agents.hpp"
#include "agents/node_rights.hpp"
#include "agents/wire_commands.hpp"
#include "agents/wire_events.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// Of one node: launches that are being ended, and new ones of them in a while. A later hello ends others.
constexpr std::size_t kMostStrays = 64;
constexpr Nanoseconds kStrayPeriod = std::chrono::minutes(1);

}  // namespace

// Ranks of a run that is over, or of an earlier launch, which the agent could not be told to end while it was away.
// Launches that nobody can have given out are none.
void Agents::end_strays(const wire::Hello& hello, std::uint64_t believed) {
  std::map<std::pair<std::string, std::uint64_t>, std::string> strays;  // with the variant
  for (int i = 0; i < std::min(hello.running_size(), kMostRunning); ++i) {
    const wire::RunningRank& rank = hello.running(i);
    const JobRun* job = jobs_.find(rank.job());
    if (job == nullptr || rank.launch() > believed) continue;
    const bool of_this = job->active() && job->state().launch == rank.launch();
    if (of_this && has_ranks_on(job->state(), hello.node())) continue;
    const std::string variant = rank.has_variant() ? rank.variant() : job->state().launch_variant;
    if (strays.size() < kMostStrays) strays.emplace(std::pair(rank.job(), rank.launch()), variant);
  }
  for (const auto& [stray, variant] : strays) {
    const auto& [name, launch] = stray;
    const std::string tag = "stray/" + std::to_string(launch) + "/" + hello.node();
    const JobRun& job = *jobs_.find(name);
    const auto id = stray_command(hello.node(), job, tag);
    if (!id) continue;
    if (says(stray_lines_)) {
      spdlog::warn("node {} still has ranks of launch {} of job {}; they are ended", hello.node(), launch, name);
    }
    // Of a job that has been launched again what these would save is older than what it has saved since.
    const KillOn kill{tag, hello.node(), launch, variant, job.active() && launch < job.state().launch};
    (void)send(hello.node(), command(kill, {*id, name, "", "", ""}));
  }
}

// The one that was sent before, or a new one: each is a commit, and a row until it is answered, so a node that says
// anything gets few.
std::optional<std::uint64_t> Agents::stray_command(const std::string& node, const JobRun& job, const std::string& tag) {
  Strays& strays = strays_[node];
  const std::pair key(job.run(), tag);
  if (const auto sent = strays.open.find(key); sent != strays.open.end()) return sent->second;
  const Nanoseconds now = services_.clock.monotonic();
  if (now - strays.since >= kStrayPeriod) {
    strays.since = now;
    strays.given = 0;
    // Of a run that is forgotten no answer is taken any more.
    std::erase_if(strays.open, [this](const auto& one) { return jobs_.find_run(one.first.first) == nullptr; });
  }
  if (strays.open.size() >= kMostStrays || strays.given >= kMostStrays) return std::nullopt;
  const auto id = services_.store.command_id(job.run(), tag, node);
  if (!id.ok()) return std::nullopt;
  ++strays.given;
  return strays.open.emplace(key, *id).first->second;
}

}  // namespace trimtab::coordinator
